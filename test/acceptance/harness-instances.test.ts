import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

const save = (tenant: Tenant, id: string, path: string) =>
  tenant.say(id, `/tool files ${JSON.stringify({ operation: 'write', path, content: `of ${path}` })}`);

const sees = async (tenant: Tenant, id: string, path: string): Promise<boolean> =>
  (await tenant.say(id, `/tool files ${JSON.stringify({ operation: 'read', path })}`)).text.includes(`of ${path}`);

const withScope = (scope: string) => createTenant(url, { instance: { scope }, permissions: { mode: 'autonomous' } });
const of = (end_user_id: string, more = {}) => ({ metadata: { end_user_id, ...more } });

test('session scope: files are the session’s own, and survive its stop', async () => {
  const tenant = await withScope('session');
  const one = await tenant.session(of('ann'));
  await save(tenant, one, 'a.txt');
  assert.equal(await sees(tenant, await tenant.session(of('ann')), 'a.txt'), false);
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${one}`);
  await tenant.post('/v1/sessions', { session_id: one });
  assert.equal(await sees(tenant, one, 'a.txt'), true);
});

test('end_user scope: a later session of the same end user finds the files, another’s does not', async () => {
  const tenant = await withScope('end_user');
  const first = await tenant.session(of('ann'));
  await save(tenant, first, 'a.txt');
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${first}`);
  assert.equal(await sees(tenant, await tenant.session(of('ann')), 'a.txt'), true);
  assert.equal(await sees(tenant, await tenant.session({ metadata: { user_id: 'ann' } }), 'a.txt'), true, 'user_id is the older name');
  assert.equal(await sees(tenant, await tenant.session(of('bob')), 'a.txt'), false);
  assert.equal(await sees(tenant, await tenant.session(), 'a.txt'), false, 'nobody shares with nobody');
  assert.equal(await sees(tenant, await tenant.session(), 'a.txt'), false);
});

test('shared scope: every session of the agent has the same files, and no other agent or org', async () => {
  const tenant = await withScope('shared');
  await save(tenant, await tenant.session(of('ann')), 'a.txt');
  assert.equal(await sees(tenant, await tenant.session(of('bob')), 'a.txt'), true);
  assert.equal(await sees(tenant, await tenant.session(), 'a.txt'), true);
  const other = await withScope('shared');
  assert.equal(await sees(other, await other.session(of('ann')), 'a.txt'), false);
  await tenant.post('/api/agents', { slug: 'second', default: true });
  await tenant.post('/api/agents/second/releases', { instance: { scope: 'shared' }, permissions: { mode: 'autonomous' }, activate: true });
  assert.equal(await sees(tenant, await tenant.session(), 'a.txt'), false);
});

test('agent_instance_id names the instance whatever the scope, and each user is still told apart', async () => {
  const tenant = await withScope('end_user');
  const ann = await tenant.session(of('ann', { agent_instance_id: 'clerk-7' }));
  const bob = await tenant.session(of('bob', { agent_instance_id: 'clerk-7' }));
  await save(tenant, ann, 'a.txt');
  assert.equal(await sees(tenant, bob, 'a.txt'), true);
  assert.equal(await sees(tenant, await tenant.session(of('ann')), 'a.txt'), false);
  assert.equal(await sees(tenant, await tenant.session(of('ann', { agent_instance_id: 'clerk-8' })), 'a.txt'), false);
  const { sessions } = (await tenant.get(`${tenant.agentPath}/v1/sessions`)).body;
  const users = sessions.filter((session: { id: string }) => [ann, bob].includes(session.id));
  assert.deepEqual(users.map((session: { end_user_id: string }) => session.end_user_id).sort(), ['ann', 'bob']);
});

test('a backend says who acts turn by turn, also on the two adapters', async () => {
  const tenant = await withScope('shared');
  const session_id = await tenant.session(of('ann'));
  const bob = { end_user_id: 'bob' };
  const messages = [{ role: 'user', content: 'hi' }];
  const chat = await tenant.post(`${tenant.agentPath}/v1/chat/completions`, { messages, metadata: { ...bob, session_id } });
  const response = await tenant.post(`${tenant.agentPath}/v1/responses`, { input: 'hi', conversation: session_id, metadata: bob });
  assert.deepEqual([chat.status, response.status, (await tenant.say(session_id, 'hi')).session_id], [200, 200, session_id]);
  const used = (await tenant.get('/api/usage?group_by=end_user')).body.data;
  const turns = used.map((row: { end_user_id: string; turns: number }) => `${row.end_user_id} ${row.turns}`);
  assert.deepEqual(turns, ['ann 1', 'bob 2']);
});

test('an end user cannot be named so that it becomes another boundary', async () => {
  const tenant = await withScope('end_user');
  await save(tenant, await tenant.session(of('x', { agent_instance_id: 'clerk' })), 'a.txt');
  const shared = await createTenant(url, { instance: { scope: 'shared' }, permissions: { mode: 'autonomous' } });
  await save(shared, await shared.session(), 'a.txt');
  for (const name of ['instance:clerk', 'clerk', 'shared', '../clerk', "clerk'--"])
    assert.equal(await sees(tenant, await tenant.session(of(name)), 'a.txt'), false, name);
});

test('shell and files see the same workspace, also binary, and across turns', async () => {
  const tenant = await withScope('session');
  const id = await tenant.session();
  await tenant.say(id, '/tool bash {"command":"mkdir -p d && echo of d/a.txt > d/a.txt && echo AP8= | base64 -d > bin"}');
  assert.equal(await sees(tenant, id, 'd/a.txt'), true);
  const listing = await tenant.say(id, 'which files are there?');
  assert.match(listing.text, /d\/a\.txt/);
  await tenant.say(id, '/tool files {"operation":"delete","path":"d/a.txt"}');
  assert.match((await tenant.say(id, '/tool bash {"command":"ls d; wc -c < bin"}')).text, /2/);
  assert.equal(await sees(tenant, id, 'd/a.txt'), false);
});

test('a command that writes many megabytes does not send them through the statement for which all turns wait', async (t) => {
  const prepared = t.mock.method(app.context.database, 'prepared');
  const tenant = await withScope('session');
  const id = await tenant.session();
  const write = 'for i in 1 2 3; do printf "%02000000d" $i > f$i; done; mkdir -p gone; echo x > gone/a';
  await tenant.say(id, `/tool bash ${JSON.stringify({ command: write })}`);
  const change = 'printf "%01500000d" 4 > f1; rm -r gone; cat f2 >> f3';
  await tenant.say(id, `/tool bash ${JSON.stringify({ command: change })}`);
  const { text } = await tenant.say(id, `/tool bash ${JSON.stringify({ command: 'wc -c *; tail -c 1 f1 f2 f3' })}`);
  assert.match(text, /1500000 f1\n\s*2000000 f2\n\s*4000000 f3\n.*==> f1 <==\n4\n.*==> f2 <==\n2\n.*==> f3 <==\n2/s);
  const longest = Math.max(...prepared.mock.calls.map(({ arguments: [, [first]] }) => String(first).length));
  assert.ok(longest < 100_000, `a statement of ${longest} characters`);
});
