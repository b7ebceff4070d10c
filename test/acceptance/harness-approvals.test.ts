// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import type { WireAnswer } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();

const bash = (command: string) => `/tool bash ${JSON.stringify({ command })}`;
const write = (path: string) => `/tool files ${JSON.stringify({ operation: 'write', path, content: 'x' })}`;

const resolve = async (tenant: Tenant, id: string, decision: string): Promise<WireAnswer['body']> => {
  const { pending_input } = (await tenant.get(`/v1/sessions/${id}`)).body;
  const answer = await tenant.put(`/v1/sessions/${id}/inputs/${pending_input.request_id}`, { decision });
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
};

/** What came of each call: its state, or `asks` for the one that waits. */
const states = (body: WireAnswer['body']): string[] => {
  const parts = body.messages[1].parts.filter((part: { type: string }) => part.type === 'tool_use');
  return parts.map((part: { state: string }) => (body.pending_input && part.state === 'running' ? 'asks' : part.state));
};

test('by default shell, writes and fetch ask; reading and listing do not', async () => {
  const tenant = await createTenant(url);
  const asks = async (text: string) => {
    const id = await tenant.session();
    const [state] = states(await tenant.say(id, text));
    if (state === 'asks') await resolve(tenant, id, 'deny');
    return state;
  };
  assert.equal(await asks(bash('ls')), 'asks');
  assert.equal(await asks(write('a.txt')), 'asks');
  assert.equal(await asks('/tool files {"operation":"delete","path":"a.txt"}'), 'asks');
  assert.equal(await asks('/tool fetch {"url":"https://example.com/"}'), 'asks');
  assert.equal(await asks('/tool files {"operation":"list"}'), 'completed');
  assert.equal(await asks('/tool files {"operation":"read","path":"none.txt"}'), 'error');
});

test('a call that cannot run asks nobody, also where a rule asks: the model is told why', async () => {
  const rules = [{ tool: '*', action: 'ask' }];
  const tenant = await createTenant(url, { agents: [{ name: 'main' }, { name: 'clerk' }], permissions: { rules } });
  const calls: [text: string, problem: string][] = [
    ['/tool bash {}', 'bash failed: The command is missing'],
    ['/tool bash {"command":" "}', 'bash failed: The command is missing'],
    ['/tool bash "ls"', 'bash failed: The command is missing'],
    ['/tool files {"operation":"write","path":"a.txt"}', 'files failed: The content to write is missing'],
    ['/tool files {"operation":"delete"}', 'files failed: The path of a file is missing'],
    ['/tool files {"operation":"chmod","path":"a.txt"}', 'files failed: The operation must be one of read, write, list, delete'],
    ['/tool fetch {}', 'fetch failed: The url is missing'],
    [
      '/tool fetch {"url":"https://example.com/","method":"BREW"}',
      'fetch failed: The method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
    ],
    ['/handoff nobody', 'handoff failed: There is no agent "nobody" to hand over to. Agents: clerk'],
  ];
  for (const [text, problem] of calls) {
    const body = await tenant.say(await tenant.session(), text);
    assert.deepEqual([states(body), body.text], [['error'], problem], text);
  }
  const id = await tenant.session();
  assert.deepEqual(states(await tenant.say(id, `/tool bash {}\n${bash('echo hi')}`)), ['error', 'asks']);
  assert.match((await resolve(tenant, id, 'approve_once')).events.at(-3).data.part.text, /bash answered: hi$/);
});

test('an autonomous release asks nobody, a locked one denies, and the session may say otherwise', async () => {
  const tenant = await createTenant(url, { permissions: { mode: 'autonomous' } });
  const run = async (body: Record<string, unknown>) => {
    const id = await tenant.session(body);
    const [state] = states(await tenant.say(id, bash('echo hi')));
    if (state === 'asks') await resolve(tenant, id, 'deny');
    return state;
  };
  assert.equal(await run({}), 'completed');
  assert.equal(await run({ permission_mode: 'interactive' }), 'asks');
  assert.equal(await run({ permission_mode: 'locked' }), 'denied');
  await tenant.release({ permissions: { mode: 'locked' } });
  assert.equal(await run({}), 'denied');
  assert.equal(await run({ permission_mode: null }), 'denied');
  assert.equal(await run({ permission_mode: 'autonomous' }), 'completed');
});

test('a turn in which the release denied a call says so at its end, without a request: nobody was asked', async () => {
  const tenant = await createTenant(url, { permissions: { mode: 'locked' } });
  const id = await tenant.session();
  const answer = await tenant.post(`/v1/sessions/${id}/messages`, { text: bash('echo hi'), stream: true });
  const done = JSON.parse(answer.text.trimEnd().split('data: ').at(-1) ?? '');
  assert.deepEqual(done.data, { usage: done.data.usage, denied: true });
  const { events } = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body;
  const { stop_reason, denied, request_id } = events.at(-1);
  assert.deepEqual([stop_reason, denied, request_id], ['end_turn', true, undefined]);
  await tenant.say(id, 'hi');
  const after = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body.events.at(-1);
  assert.equal('denied' in after, false, 'only of that turn');
});

test('the last rule that matches decides, by tool and by pattern', async () => {
  const rules = [
    { tool: 'bash', action: 'allow' },
    { tool: 'bash', match: 'rm *', action: 'deny' },
    { tool: 'bash', match: 'rm tmp/*', action: 'ask' },
    { tool: 'files', match: 'secret?/*', action: 'deny' },
  ];
  const tenant = await createTenant(url, { permissions: { mode: 'interactive', rules } });
  const run = async (text: string) => {
    const id = await tenant.session();
    const [state] = states(await tenant.say(id, text));
    if (state === 'asks') await resolve(tenant, id, 'deny');
    return state;
  };
  assert.equal(await run(bash('echo hi')), 'completed');
  assert.equal(await run(bash('rm -rf all')), 'denied');
  assert.equal(await run(bash('rm tmp/a')), 'asks');
  assert.equal(await run('/tool files {"operation":"read","path":"secret7/key"}'), 'denied');
  assert.equal(await run('/tool files {"operation":"read","path":"secret/key"}'), 'error', 'no such file');
  assert.equal(await run(write('open.txt')), 'asks');
});

test('a deny rule holds in an autonomous release too', async () => {
  const tenant = await createTenant(url, { permissions: { mode: 'autonomous', rules: [{ tool: 'bash', match: 'rm *', action: 'deny' }] } });
  const body = await tenant.say(await tenant.session(), `${bash('rm x')}\n${bash('echo ok')}`);
  assert.deepEqual(states(body), ['denied', 'completed']);
});

test('approve_session covers the same tool under the same pattern, and no other', async () => {
  const rules = [
    { tool: 'bash', match: 'deploy *', action: 'ask' },
    { tool: 'bash', match: 'drop *', action: 'ask' },
  ];
  const tenant = await createTenant(url, { permissions: { mode: 'interactive', rules } });
  const id = await tenant.session();
  await tenant.say(id, bash('deploy one'));
  await resolve(tenant, id, 'approve_session');
  assert.deepEqual(states(await tenant.say(id, bash('deploy two'))), ['error'], 'it ran: there is no such command');
  assert.deepEqual(states(await tenant.say(id, bash('drop all'))), ['asks']);
  await resolve(tenant, id, 'deny');
  assert.deepEqual(states(await tenant.say(id, bash('echo something else'))), ['asks'], 'no pattern asked for this one');
  await resolve(tenant, id, 'deny');
});

test('approve_once covers one action: the same one asks again', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.say(id, bash('echo one'));
  await resolve(tenant, id, 'approve_once');
  assert.deepEqual(states(await tenant.say(id, bash('echo one'))), ['asks']);
  await resolve(tenant, id, 'deny');
});

test('several calls of one step ask one after the other, and none runs before its answer', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const text = [bash('echo 1 >> log'), '/tool files {"operation":"list"}', bash('echo 3 >> log'), bash('echo 4 >> log'), '/say Done.'].join(
    '\n',
  );
  const body = await tenant.say(id, text);
  assert.deepEqual(states(body), ['asks', 'asks', 'asks', 'asks'], 'nothing has run yet');
  const first = await resolve(tenant, id, 'approve_once');
  assert.deepEqual(
    first.events.map((event: { type: string }) => event.type),
    ['tool_use', 'tool_use', 'input_required'],
    'what needs no answer runs in its place',
  );
  const second = await resolve(tenant, id, 'deny');
  assert.equal(second.events.at(-1).type, 'input_required');
  const third = await resolve(tenant, id, 'approve_once');
  assert.deepEqual(third.events.at(-1).data.denied, true, 'a turn in which something was denied says so at its end');
  const read = await tenant.say(id, '/tool files {"operation":"read","path":"log"}');
  assert.match(read.text, /1\n4/);
});

test('approve_session given to the first of several covers the rest of the step', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.say(id, `${bash('echo 1')}\n${bash('echo 2')}\n/say Both.`);
  const { events, session } = await resolve(tenant, id, 'approve_session');
  assert.equal(session.pending_input, null);
  assert.equal(events.at(-1).type, 'done');
});

test('a tool that the release does not offer is not run, whatever the model asks', async () => {
  const tenant = await createTenant(url, { tools: ['files'], permissions: { mode: 'autonomous' } });
  const body = await tenant.say(await tenant.session(), bash('echo hi'));
  assert.deepEqual(states(body), []);
  assert.match(body.text, /no tool named bash/);
});

test('a turn goes on after its approval with the sub-agent it was with, and the log says which', async () => {
  const tenant = await createTenant(url, { agents: ['main', 'clerk', 'cook'].map((name) => ({ name, instructions: name })) });
  const id = await tenant.session();
  const running = async (): Promise<string[]> => {
    const { events } = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body;
    return events.filter(({ type }: { type: string }) => type === 'session.status_running').map(({ agent }: { agent: string }) => agent);
  };
  await tenant.say(id, bash('echo 1'), { agent: 'clerk' });
  await resolve(tenant, id, 'approve_once');
  assert.deepEqual(await running(), ['clerk', 'clerk']);
  await tenant.say(id, `/handoff cook\n${bash('echo 2')}`, { agent: 'clerk' });
  await resolve(tenant, id, 'deny');
  assert.deepEqual((await running()).slice(2), ['clerk', 'cook']);
  await tenant.say(id, bash('echo 3'));
  await resolve(tenant, id, 'deny');
  assert.deepEqual((await running()).slice(4), ['cook', 'cook']);
});

test('whom a turn goes on with is known without looking through what it has written, which may be long', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.say(id, bash('echo 1'));
  await sql`create or replace function agent_of_turn(s sessions, of_turn text) returns text language plpgsql as $$
    begin raise exception 'the log was looked through'; end $$`.execute(app.context.database.db);
  assert.deepEqual((await resolve(tenant, id, 'approve_once')).session.pending_input, null);
});
