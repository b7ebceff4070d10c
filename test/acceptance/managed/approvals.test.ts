import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { ManagedClient, readUntil, types } from '../../support/managed.ts';

const app = await startApp({ after });
const client = new ManagedClient(app);
const bash = '/tool bash {"command":"echo hi"}';

test('a turn that needs approval rests with requires_action, and a confirmation continues it', async () => {
  const id = await client.create();
  await client.say(id, bash);
  const first = await client.untilIdle(id);
  const pause = first.at(-1);
  assert.equal(pause?.stop_reason, 'requires_action');
  assert.match(String(pause?.request_id), /^req_/);
  assert.deepEqual(pause?.pending_input, {
    request_id: pause?.request_id,
    kind: 'tool_use',
    tool: 'bash',
    message: 'Run this command?\necho hi',
    options: ['approve_once', 'approve_session', 'deny'],
  });
  assert.ok(pause?.usage);
  assert.equal((await client.state(id)).status, 'idle');
  const wrong = await client.post(id, { type: 'user.tool_confirmation', request_id: 'req_other', result: 'allow' });
  assert.equal(wrong.status, 409);
  assert.equal((await client.state(id)).events.length, first.length);
  const answer = { type: 'user.tool_confirmation', request_id: pause?.request_id, result: 'allow', tool_use_id: pause?.tool_use_id };
  assert.equal((await client.post(id, answer)).status, 202);
  const rest = await client.untilIdle(id, pause?.seq);
  assert.deepEqual(types(rest), [
    'user.tool_confirmation',
    'session.status_running',
    'agent.tool_result',
    'agent.message',
    'session.status_idle',
  ]);
  assert.equal(rest[0]?.result, 'approve_once');
  assert.equal(rest[0]?.request_id, pause?.request_id);
  assert.equal(rest[2]?.output, 'hi');
  assert.equal(rest.at(-1)?.stop_reason, 'end_turn');
  assert.equal((await client.post(id, answer)).status, 202, 'the same answer again is accepted again');
  assert.equal((await client.post(id, { ...answer, result: 'deny' })).status, 409);
  assert.equal((await client.state(id)).events.length, first.length + rest.length);
});

test('a token that may not approve asks for what the backend decides', async () => {
  const mint = async (body: object) =>
    (await app.request('POST', '/api/agents/assistant/session_tokens', { end_user_id: 'ann', ...body })).body.token;
  const ann = client.as(await mint({ may_approve: false }));
  const id = await ann.create();
  await ann.say(id, bash);
  const pause = (await ann.untilIdle(id)).at(-1);
  const refusal = { error: 'approval_not_allowed', message: 'This session token cannot answer approvals.' };
  for (const result of ['approve_once', 'approve_session', 'deny']) {
    const refused = await ann.post(id, { type: 'user.tool_confirmation', request_id: pause?.request_id, result });
    assert.deepEqual([refused.status, refused.body], [403, { detail: refusal }], result);
  }
  const item = { type: 'mcp_approval_response', approval_request_id: pause?.request_id, approve: true };
  const authorization = `Bearer ${ann.credential}`;
  const response = await app.request('POST', '/demo/assistant/v1/responses', { conversation: id, input: [item] }, { authorization });
  assert.deepEqual([response.status, response.body.detail], [403, refusal]);
  assert.equal((await client.state(id)).events.length, pause?.seq, 'nothing was answered');
  const answer = { type: 'user.tool_confirmation', request_id: pause?.request_id, result: 'approve_once' };
  assert.equal((await client.post(id, answer)).status, 202, 'the backend may answer');
  const end = (await ann.untilIdle(id, pause?.seq)).at(-1);
  assert.equal(end?.stop_reason, 'end_turn');
  await ann.say(id, bash);
  const next = (await ann.untilIdle(id, end?.seq)).at(-1);
  const other = client.as(await mint({ may_approve: true }));
  assert.equal((await other.post(id, { type: 'user.tool_confirmation', request_id: next?.request_id, result: 'deny' })).status, 202);
});

test('approve_session is not asked again, approve_once is', async () => {
  const id = await client.create();
  await client.say(id, bash);
  let seq = 0;
  const answerWith = async (result: string) => {
    const pause = (await client.untilIdle(id, seq)).at(-1);
    assert.equal(pause?.stop_reason, 'requires_action');
    seq = pause?.seq ?? 0;
    assert.equal((await client.post(id, { type: 'user.tool_confirmation', request_id: pause?.request_id, result })).status, 202);
    seq = (await client.untilIdle(id, seq)).at(-1)?.seq ?? 0;
  };
  await answerWith('approve_once');
  await client.say(id, bash);
  await answerWith('approve_session');
  await client.say(id, bash);
  assert.equal((await client.untilIdle(id, seq)).at(-1)?.stop_reason, 'end_turn');
});

test('a denied turn ends like any other, with denied and the request_id', async () => {
  const id = await client.create();
  await client.say(id, bash);
  const pause = (await client.untilIdle(id)).at(-1);
  assert.equal((await client.post(id, { type: 'user.tool_confirmation', request_id: pause?.request_id, result: 'deny' })).status, 202);
  const last = (await client.untilIdle(id, pause?.seq)).at(-1);
  assert.equal(last?.type, 'session.status_idle');
  assert.equal(last?.stop_reason, 'end_turn');
  assert.equal(last?.denied, true);
  assert.equal(last?.request_id, pause?.request_id);
});

test('whoever attaches while an approval is pending sees it', async () => {
  const id = await client.create();
  await client.say(id, bash);
  const all = await client.untilIdle(id);
  const late = await client.follow(id, `?after=${all.length - 1}`);
  const [frame] = await readUntil(late[Symbol.asyncIterator](), () => true);
  assert.deepEqual(frame?.data, all.at(-1));
  late.leave();
  await client.post(id, { type: 'user.interrupt' });
  await client.untilIdle(id, all.length);
});

test('a message while an approval is pending is accepted and waits its turn', async () => {
  const id = await client.create();
  await client.say(id, bash);
  const pause = (await client.untilIdle(id)).at(-1);
  assert.equal((await client.post(id, { type: 'user.message', text: '/say second' })).status, 202);
  assert.equal((await client.state(id)).events.at(-1)?.seq, pause?.seq, 'it has no place in the log yet');
  await client.post(id, { type: 'user.tool_confirmation', request_id: pause?.request_id, result: 'deny' });
  const end = (await client.untilIdle(id, pause?.seq)).at(-1);
  const second = await client.untilIdle(id, end?.seq);
  assert.deepEqual(types(second), ['user.message', 'session.status_running', 'agent.message', 'session.status_idle']);
  assert.equal(second[2]?.text, 'second');
});
