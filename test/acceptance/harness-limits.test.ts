// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

const log = async (tenant: Tenant, id: string) =>
  (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body.events as { type: string; [field: string]: unknown }[];

test('a turn ends after max_steps, and says so', async () => {
  const tenant = await createTenant(url, { limits: { max_steps: 1 }, permissions: { mode: 'autonomous' } });
  const id = await tenant.session();
  const frames = await (
    await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"echo hi"}\n/say never', stream: true })
  ).rest();
  assert.equal(frames.at(-1)?.event, 'done');
  assert.equal(frames.at(-1)?.data.data.stop_reason, 'max_steps');
  assert.equal((await log(tenant, id)).at(-1)?.stop_reason, 'max_steps');
  assert.equal((await tenant.say(id, '/say next')).text, 'next');
  const content = '/tool bash {"command":"echo hi"}\n/say never';
  const chat = await tenant.post(`${tenant.agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content }] });
  assert.equal(chat.body.choices[0].finish_reason, 'length');
  const response = await tenant.post(`${tenant.agentPath}/v1/responses`, { input: content });
  assert.deepEqual([response.body.status, response.body.incomplete_details], ['incomplete', { reason: 'max_steps' }]);
});

test('a turn that takes longer than turn_timeout_s fails as turn_timeout, and the session goes on', async () => {
  const tenant = await createTenant(url, { limits: { turn_timeout_s: 1 } });
  const id = await tenant.session();
  const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/delay 30000\n/say one two', stream: true })).rest();
  assert.equal(frames.at(-1)?.event, 'error');
  const message = 'The turn took longer than its release allows.';
  assert.deepEqual(frames.at(-1)?.data.data, { code: 'turn_timeout', provider: null, message });
  const transcript = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(transcript.body.messages[1]?.text, 'one ', 'what was said is kept');
  const unary = await tenant.post(`/v1/sessions/${id}/messages`, { text: '/delay 30000\n/say one two' });
  assert.ok(unary.status >= 500, String(unary.status));
  assert.equal(unary.body.detail.error, 'turn_timeout');
  assert.equal((await tenant.say(id, '/say next')).text, 'next');
});

test('a tool that takes longer than turn_timeout_s is ended, and every call of its step has a result', async () => {
  const tenant = await createTenant(url, { limits: { turn_timeout_s: 1 }, permissions: { mode: 'autonomous' } });
  const id = await tenant.session();
  const text = '/tool bash {"command":"sleep 30"}\n/tool bash {"command":"echo hi"}';
  const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text, stream: true })).rest();
  assert.deepEqual(
    frames.map(({ event, data }) => (event === 'tool_use' ? data.data.part.state : event)),
    ['step_start', 'running', 'running', 'interrupted', 'interrupted', 'step_finish', 'error'],
  );
  const results = (await log(tenant, id)).filter(({ type }) => type === 'agent.tool_result');
  assert.deepEqual(
    results.map(({ is_error }) => is_error),
    [true, true],
  );
});

test('an answer with more than 1,000 calls fails the turn, and none of them runs', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const text = '/tool files {"operation":"list"}\n'.repeat(1_001);
  const answer = await tenant.post(`/v1/sessions/${id}/messages`, { text });
  assert.deepEqual([answer.status, answer.body.detail.error], [502, 'model_error']);
  assert.deepEqual(
    (await log(tenant, id)).map(({ type }) => type),
    ['user.message', 'session.status_running', 'session.error'],
  );
});

for (const overflow of ['drop', 'summarize']) {
  test(`a conversation that nears the context limit is condensed (${overflow}), the log says so, and it goes on`, async () => {
    const tenant = await createTenant(url, { context: { limit_tokens: 600, overflow } });
    const id = await tenant.session();
    for (let turn = 0; turn < 12; turn += 1) await tenant.say(id, `/words 60\nturn ${turn}`);
    const events = await log(tenant, id);
    const condensed = events.filter((event) => event.type === 'session.context_condensed');
    assert.ok(condensed.length >= 1, 'it was condensed');
    for (const event of condensed) {
      assert.ok(Number(event.through_seq) < events.length);
      assert.equal(typeof event.summary, overflow === 'drop' ? 'object' : 'string');
    }
    const { text } = await tenant.say(id, 'hello');
    const [, shown] = /turn (\d+) of/.exec(text) ?? [];
    assert.ok(Number(shown) < 12, `the model is shown ${shown} turns`);
    const transcript = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
    assert.equal(transcript.body.messages.length, 26, 'the transcript is whole');
  });
}

test('a tool says what it left out of a long output', async () => {
  const tenant = await createTenant(url, { permissions: { mode: 'autonomous' } });
  const id = await tenant.session();
  const printed = await tenant.say(id, '/tool bash {"command":"seq 1 20000 | tee long.txt"}\n/say ok');
  assert.ok(printed.messages[1].parts[0].output.length < 40_000);
  assert.match(printed.messages[1].parts[0].output, /truncated/i);
  const read = await tenant.say(id, '/tool files {"operation":"read","path":"long.txt"}\n/say ok');
  assert.match(read.messages[1].parts[0].output, /\[output truncated: 78894 of 108894 characters left out\]$/);
});

test('a handoff inside a turn: the rest of it and the next turns are the other sub-agent', async () => {
  const agents = [{ name: 'front' }, { name: 'billing', tools: [] }];
  const tenant = await createTenant(url, { main: 'front', agents, permissions: { mode: 'autonomous' } });
  const id = await tenant.session();
  const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/handoff billing', stream: true })).rest();
  const steps = frames.filter((frame) => frame.event === 'step_start').map((frame) => frame.data.data.agent);
  assert.deepEqual(steps, ['front', 'billing']);
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.current_agent, 'billing');
  const nowhere = await tenant.say(id, '/handoff nobody');
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.current_agent, 'billing');
  assert.match(JSON.stringify(nowhere), /nobody/);
});

test('calls that a sub-agent made together with a handoff are run with its own tools, also after an approval', async () => {
  const agents = [{ name: 'front', tools: ['files', 'bash'] }, { name: 'billing', tools: [] }, { name: 'desk' }];
  const tenant = await createTenant(url, { main: 'front', agents });
  const id = await tenant.session();
  const calls = ['/handoff billing', '/tool files {"operation":"list"}', '/tool bash {"command":"echo mine"}', '/handoff front'];
  const paused = await tenant.say(id, calls.join('\n'));
  assert.equal(paused.pending_input?.tool, 'bash', JSON.stringify(paused));
  const resolve = `/v1/sessions/${id}/inputs/${paused.pending_input.request_id}`;
  assert.equal((await tenant.put(resolve, { decision: 'approve_once' })).status, 200);
  const results = (await log(tenant, id)).filter(({ type }) => type === 'agent.tool_result');
  assert.deepEqual(
    results.map(({ output, is_error }) => [String(output).trim(), is_error]),
    [
      ['The conversation is now with billing.', false],
      ['The workspace is empty.', false],
      ['mine', false],
      ['There is no agent "front" to hand over to. Agents: billing, desk', true],
    ],
  );
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.current_agent, 'billing');
});

test('what is too long to be summarized is left out, and the session goes on', async () => {
  const tenant = await createTenant(url, { context: { overflow: 'summarize' } });
  const path = `${tenant.agentPath}/v1/chat/completions`;
  const user = (content: string) => ({ role: 'user', content });
  const first = await tenant.post(path, { messages: [user('word '.repeat(120_000)), user('/say hello')] });
  assert.deepEqual([first.status, first.body.error.code], [422, 'context_length_exceeded']);
  const id = String(first.headers.get('x-svc-session'));
  assert.equal((await tenant.say(id, '/say next')).text, 'next');
  const condensed = (await log(tenant, id)).filter(({ type }) => type === 'session.context_condensed');
  assert.deepEqual(
    condensed.map(({ summary }) => summary),
    [null],
  );
});

test('a conversation that the model finds too long, though it was estimated to fit, is cut and goes on', async () => {
  const tenant = await createTenant(url, { context: { limit_tokens: 1_000_000 } });
  const id = await tenant.session();
  const long = `/say ok\n${'word '.repeat(39_900)}`;
  for (const turn of [1, 2, 3]) assert.equal((await tenant.say(id, long)).text, 'ok', `turn ${turn}`);
  const types = (await log(tenant, id)).map(({ type }) => type);
  assert.deepEqual(types.slice(-5), [
    'user.message',
    'session.status_running',
    'session.context_condensed',
    'agent.message',
    'session.status_idle',
  ]);
});
