import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

test('a unary answer has exactly the documented fields, on both routes', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  for (const base of ['', tenant.agentPath]) {
    const answer = await tenant.post(`${base}/v1/sessions/${id}/messages`, { text: '/say Hello there.' });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.match(answer.headers.get('x-request-id') ?? '', /^\S+$/);
    const { messages, usage, ...rest } = answer.body;
    assert.deepEqual(rest, { text: 'Hello there.', session_id: id, agent: 'main' });
    const [asked, answered] = messages;
    assert.match(asked.id, /^msg_/);
    assert.match(answered.id, /^msg_/);
    assert.notEqual(asked.id, answered.id);
    assert.deepEqual(messages, [
      { id: asked.id, role: 'user', text: '/say Hello there.', parts: [{ type: 'text', text: '/say Hello there.' }] },
      { id: answered.id, role: 'assistant', text: 'Hello there.', parts: [{ type: 'text', text: 'Hello there.' }] },
    ]);
    assert.deepEqual(Object.keys(usage), ['input_tokens', 'output_tokens', 'total_tokens']);
    assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0);
    assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
  }
});

test('tools are parts of the message, with their input, state and output', async () => {
  const tenant = await createTenant(url, { permissions: { mode: 'autonomous' } });
  const body = await tenant.say(await tenant.session(), '/tool bash {"command":"echo hi"}\n/tool bash {"command":"exit 3"}\n/say Done.');
  const { parts } = body.messages[1];
  assert.deepEqual(
    parts.map((part: { type: string }) => part.type),
    ['tool_use', 'tool_use', 'text'],
  );
  const [first, second] = parts;
  assert.deepEqual(Object.keys(first), ['type', 'id', 'tool', 'input', 'state', 'output']);
  assert.deepEqual([first.tool, first.input, first.state], ['bash', { command: 'echo hi' }, 'completed']);
  assert.match(first.output, /hi/);
  assert.equal(second.state, 'error');
  assert.deepEqual(parts[2], { type: 'text', text: 'Done.' });
});

test('reasoning is shown only with thinking', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const quiet = await tenant.say(id, '/think Let me see.\n/say Yes.');
  assert.deepEqual(quiet.messages[1].parts, [{ type: 'text', text: 'Yes.' }]);
  const loud = await tenant.say(id, '/think Let me see.\n/say Yes.', { thinking: true });
  assert.deepEqual(loud.messages[1].parts, [
    { type: 'reasoning', text: 'Let me see.' },
    { type: 'text', text: 'Yes.' },
  ]);
});

const team = {
  main: 'front',
  agents: [
    { name: 'front', instructions: 'You greet.' },
    { name: 'billing', instructions: 'You bill.' },
  ],
};

test('agent routes one turn to a sub-agent and leaves the session where it was', async () => {
  const tenant = await createTenant(url, team);
  const id = await tenant.session();
  assert.equal((await tenant.say(id, 'hi')).agent, 'front');
  assert.equal((await tenant.say(id, 'hi', { agent: 'billing' })).agent, 'billing');
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.current_agent, 'front');
  assert.equal((await tenant.say(id, 'hi')).agent, 'front');
});

test('an unknown sub-agent is 422 and no message is stored', async () => {
  const tenant = await createTenant(url, team);
  const id = await tenant.session();
  for (const stream of [false, true]) {
    const refused = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi', agent: 'nobody', stream });
    assert.equal(refused.status, 422);
    assert.equal(typeof refused.body.detail, 'string');
  }
  const transcript = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.deepEqual(transcript.body.messages, []);
});

test('a handoff changes current_agent for the turns after it', async () => {
  const tenant = await createTenant(url, team);
  const id = await tenant.session();
  const handed = await tenant.say(id, '/handoff billing');
  assert.equal(handed.agent, 'billing');
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.current_agent, 'billing');
  assert.equal((await tenant.say(id, 'hi')).agent, 'billing');
});

test('messages are attributed to the participants who sent them, each listed once', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.say(id, 'hi', { participant_name: 'Ann', participant_type: 'human' });
  await tenant.say(id, 'hi', { participant_name: 'Robo', participant_type: 'ai' });
  await tenant.say(id, 'hi again', { participant_name: 'Ann', participant_type: 'human' });
  await tenant.say(id, 'hi', { participant_name: 'Plain' });
  await tenant.say(id, 'nobody in particular');
  assert.deepEqual((await tenant.get(`/v1/sessions/${id}`)).body.participants, [
    { name: 'Ann', type: 'human' },
    { name: 'Robo', type: 'ai' },
    { name: 'Plain', type: 'human' },
  ]);
});

test('a session has at most a hundred participants, and those go on', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const participants = JSON.stringify(Array.from({ length: 99 }, (_, index) => ({ name: `p${index}`, type: 'human' })));
  await app.context.database.db.updateTable('sessions').set({ participants }).where('id', '=', id).execute();
  await tenant.say(id, '/say hi', { participant_name: 'the hundredth' });
  for (const headers of [{}, { 'idempotency-key': 'crowd' }]) {
    const refused = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi', participant_name: 'one more' }, headers);
    assert.deepEqual([refused.status, refused.text], [409, '{"detail":"A session has at most 100 participants"}']);
  }
  await tenant.say(id, '/say hi', { participant_name: 'p0' });
  await tenant.say(id, '/say hi');
  const { body } = await tenant.get(`/v1/sessions/${id}`);
  assert.deepEqual([body.participants.length, body.participants.at(-1).name], [100, 'the hundredth']);
});

test('a conversation goes on where it left off', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  for (let turn = 1; turn <= 4; turn += 1) assert.match((await tenant.say(id, 'hello')).text, new RegExp(`turn ${turn} of`));
  const { created_at, updated_at } = (await tenant.get(`/v1/sessions/${id}`)).body;
  assert.ok(updated_at > created_at);
});

test('a message may have 200,000 characters; one more is 422', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const long = await tenant.post(`/v1/sessions/${id}/messages`, { text: `/say ok\n${'x'.repeat(199_992)}` });
  assert.equal(long.status, 200, long.text.slice(0, 200));
  const emoji = await tenant.post(`/v1/sessions/${id}/messages`, { text: `/say ok\n${'🙂'.repeat(199_992)}` });
  assert.equal(emoji.status, 200, emoji.text.slice(0, 200));
  const longer = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'x'.repeat(200_001) });
  assert.equal(longer.status, 422);
});

test('a message and an approval whose turn takes longer than 30 s get 200 and spaces before the JSON', async (context) => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const slow = '/delay 20000\n/say one two';
  const { pending_input } = await tenant.say(id, `/tool files {"operation":"write","path":"a","content":"x"}\n${slow}`);
  // The wait for the 30 s to be over is the only timer of this length here.
  const { setTimeout } = globalThis;
  context.mock.method(globalThis, 'setTimeout', (work: () => void, ms: number) => setTimeout(work, ms === 30_000 ? 1 : ms));
  for (const [method, path, body] of [
    ['PUT', `inputs/${pending_input.request_id}`, { decision: 'approve_once' }],
    ['POST', 'messages', { text: slow }],
  ] as const) {
    const headers = { authorization: `Bearer ${tenant.key}`, 'content-type': 'application/json' };
    const response = await fetch(`${url}/v1/sessions/${id}/${path}`, { method, headers, body: JSON.stringify(body) });
    assert.equal(response.status, 200);
    await tenant.post(`${tenant.agentPath}/v1/managed-agents/sessions/${id}/events`, { type: 'user.interrupt' });
    assert.match(await response.text(), /^ \{.*"stop_reason":"interrupted".*\}$/);
  }
});

test('the text is stored and shown as it was sent, whatever script it is in', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const text = 'naïve 日本語 🙂 "quotes" \\ back\tslash \u2028 \u007f ';
  const body = await tenant.say(id, `/say ${text}end`);
  assert.equal(body.text, `${text}end`);
  const transcript = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(transcript.body.messages[0].text, `/say ${text}end`);
  assert.equal(transcript.body.messages[1].text, `${text}end`);
});

test('two hundred sessions talk at once and each gets its own answer', async () => {
  const tenant = await createTenant(url);
  const ids = await Promise.all(Array.from({ length: 200 }, () => tenant.session()));
  const answers = await Promise.all(ids.map((id, index) => tenant.say(id, `/say answer ${index}`)));
  answers.forEach((answer, index) => {
    assert.deepEqual([answer.session_id, answer.text], [ids[index], `answer ${index}`]);
  });
});
