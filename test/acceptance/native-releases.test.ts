import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant } from '../support/tenants.ts';
import { untilAccepted } from '../support/turns.ts';
import { until } from '../support/until.ts';

const app = await startApp({ after });
const url = await app.listen();
const notFound = [404, '{"detail":"Not Found"}'];

test('a session stays on the release it was created with; new sessions get the newer one', async () => {
  const tenant = await createTenant(url, { main: 'old', agents: [{ name: 'old' }] });
  const before = await tenant.session();
  assert.equal((await tenant.say(before, 'hi')).agent, 'old');
  assert.equal(await tenant.release({ main: 'new', agents: [{ name: 'new' }] }), 2);
  const later = await tenant.session();
  assert.equal((await tenant.say(before, 'hi')).agent, 'old');
  assert.equal((await tenant.say(later, 'hi')).agent, 'new');
  const versions = await Promise.all(
    [before, later].map(async (id) => (await tenant.get(`${tenant.agentPath}/v1/sessions/${id}`)).body.agent.version),
  );
  assert.deepEqual(versions, [1, 2]);
  assert.equal((await tenant.post('/v1/sessions', { session_id: before })).body.current_agent, 'old', 'resuming does not move it');
  const routed = await tenant.post(`/v1/sessions/${before}/messages`, { text: 'hi', agent: 'new' });
  assert.equal(routed.status, 422, 'sub-agents are those of its own release');
});

test('rolling back is activating an earlier version', async () => {
  const tenant = await createTenant(url);
  await tenant.release({});
  assert.equal((await tenant.post('/api/agents/helper/releases/1/activate')).status, 200);
  assert.equal((await tenant.post(`${tenant.agentPath}/v1/sessions`, {})).body.agent.version, 1);
});

test('an agent without an active release is 404 for new sessions', async () => {
  const tenant = await createTenant(url);
  await tenant.post('/api/agents', { slug: 'bare' });
  const path = `/${tenant.slug}/bare/v1/sessions`;
  const answer = await tenant.post(path, {});
  assert.deepEqual([answer.status, answer.text], notFound);
  assert.equal((await tenant.post(path, { metadata: { end_user_id: 7 } })).status, 422, 'the body is looked at before the release');
  assert.deepEqual((await tenant.get(path)).body.sessions, []);
});

test('while the active release is not materialized new sessions are 409, and sessions of older releases go on', async () => {
  const tenant = await createTenant(url);
  const before = await tenant.session();
  // Nobody listens there, and nobody may: the release cannot come to be.
  await tenant.release({ mcp_servers: [{ name: 'crm', url: 'http://127.0.0.1:9/mcp' }] });
  await until(async () => (await tenant.get('/api/agents/helper/releases/2')).body.release.state === 'failed');
  for (const base of ['', tenant.agentPath]) {
    const refused = await tenant.post(`${base}/v1/sessions`, {});
    assert.equal(refused.status, 409);
    assert.equal(typeof refused.body.detail, 'string');
  }
  assert.equal((await tenant.say(before, '/say still here')).text, 'still here');
  assert.equal((await tenant.post('/v1/sessions', { session_id: before })).status, 200);
});

test('a turn of a session whose release is not materialized is 409, after the budget', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const { db } = app.context.database;
  // No route takes a release back; a restore of the database may.
  await db.updateTable('releases').set({ state: 'failed' }).where('org_id', '=', tenant.orgId).execute();
  app.context.directory.invalidate(tenant.orgId);
  const send = (more = {}) => tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi', ...more });
  const refused = await send();
  assert.equal(refused.status, 409);
  assert.equal(typeof refused.body.detail, 'string');
  assert.equal((await send({ agent: 'nobody' })).status, 422, 'and after the body');
  await tenant.operate({ total_tokens_cap: 0 });
  assert.equal((await send()).status, 402);
  assert.equal((await send({ agent: 'nobody' })).status, 422);
});

test('with a key of its own an organization without credits is told of the release, not of the credits that it does not need', async () => {
  const tenant = await createTenant(url);
  await tenant.put('/api/model_credentials/openai', { api_key: 'sk-of-the-customer' });
  await tenant.release({ model: { provider: 'openai', name: 'gpt-5' } });
  const id = await tenant.session();
  await tenant.operate({ credits_micros: 0 });
  await app.context.database.db.updateTable('releases').set({ state: 'failed' }).where('org_id', '=', tenant.orgId).execute();
  app.context.directory.invalidate(tenant.orgId);
  const send = async () => (await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi' })).status;
  assert.equal(await send(), 409);
  await tenant.delete('/api/model_credentials/openai');
  assert.equal(await send(), 402, 'without the key it needs them');
});

test('a session takes up the tools that its release gets later: nothing of a release that is not materialized is kept', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const { db } = app.context.database;
  const pinned = { server: 'crm', name: 'look', description: '', input_schema: { type: 'object' }, read_only: true, repeatable: true };
  const releases = db.updateTable('releases').where('org_id', '=', tenant.orgId);
  await releases.set({ state: 'failed' }).execute();
  app.context.directory.invalidate(tenant.orgId);
  // As in a process that has not run the session.
  app.context.settings.forget(id);
  assert.equal((await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi' })).status, 409);
  const warm = await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}/warm`);
  assert.match(warm.text, /"status":"error","message":"Release 1 is not materialized\."/);
  await releases.set({ state: 'materialized', pinned_tools: JSON.stringify([pinned]) }).execute();
  app.context.directory.invalidate(tenant.orgId);
  assert.equal((await tenant.say(id, '/tool crm__look {}')).text, 'crm__look failed: There is no server named crm.');
});

test('a deleted agent takes its sessions with it: 404 like all that is not there', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const { pending_input } = await tenant.say(id, '/tool bash {"command":"date"}');
  await tenant.delete('/api/agents/helper');
  for (const answer of [
    await tenant.get(`${tenant.agentPath}/v1/sessions/${id}`),
    await tenant.get(`/v1/sessions/${id}`),
    await tenant.post('/v1/sessions', { session_id: id }),
    await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi' }),
    await tenant.put(`/v1/sessions/${id}/inputs/${pending_input.request_id}`, { decision: 'approve_once' }),
    await tenant.post('/v1/sessions', {}),
  ])
    assert.deepEqual([answer.status, answer.text], notFound);
});

test('a deleted agent leaves no approval to give, and nothing that waits for one', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.say(id, '/tool bash {"command":"date"}');
  await tenant.post(`${tenant.agentPath}/v1/managed-agents/sessions/${id}/events`, { type: 'user.message', text: 'hi' });
  await tenant.delete('/api/agents/helper');
  const { db } = app.context.database;
  const turns = db.selectFrom('turns').select('id').where('session_id', '=', id).where('state', '!=', 'ended');
  await until(async () => (await turns.executeTakeFirst()) === undefined);
  assert.deepEqual((await tenant.get('/dashboard/api/approvals/count')).body, { pending: 0 });
});

test('a turn of a deleted agent that comes to its question later ends there, and so does what waits behind it', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = (text: string) => tenant.post(`/v1/sessions/${id}/messages`, { text });
  const asking = send('/delay 500\n/think one two\n/tool bash {"command":"date"}');
  await untilAccepted(app, id, 1);
  const waiting = send('/say never said');
  await untilAccepted(app, id, 2);
  await tenant.delete('/api/agents/helper');
  for (const { status, body } of [await asking, await waiting])
    assert.deepEqual([status, body.pending_input, body.stop_reason, body.text], [200, undefined, 'interrupted', '']);
  assert.deepEqual((await tenant.get('/dashboard/api/approvals/count')).body, { pending: 0 });
});

test('deleting an agent ends what runs and what waits, which nobody could stop any more, also in a process that has not run the session', {
  timeout: 20_000,
}, async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = (text: string) => tenant.post(`/v1/sessions/${id}/messages`, { text });
  const running = send('/delay 500\n/words 1000');
  await untilAccepted(app, id, 1);
  const waiting = send('/say never said');
  await untilAccepted(app, id, 2);
  app.context.settings.forget(id);
  await tenant.delete('/api/agents/helper');
  assert.deepEqual([(await running).status, (await running).body.stop_reason], [200, 'interrupted']);
  assert.deepEqual([(await waiting).status, (await waiting).body.stop_reason, (await waiting).body.text], [200, 'interrupted', '']);
});
