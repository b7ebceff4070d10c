import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { collect, fields, ManagedClient, readUntil, types } from '../../support/managed.ts';

const app = await startApp({ after });
const client = new ManagedClient(app);
const bash = '/tool bash {"command":"echo hi"}';

test('a user.message is accepted with 202, runs in the background, and the session is running from then on', async () => {
  const id = await client.create();
  const answer = await client.post(id, { type: 'user.message', text: '/delay 20\n/words 5' });
  assert.equal(answer.status, 202);
  assert.deepEqual(fields(answer), { accepted: true });
  assert.equal((await client.state(id)).status, 'running');
  const entries = await client.untilIdle(id);
  assert.deepEqual(types(entries), ['user.message', 'session.status_running', 'agent.message', 'session.status_idle']);
  assert.equal((await client.state(id)).status, 'idle');
});

test('frames have id, event and data as documented', async () => {
  const id = await client.create();
  await client.say(id, '/think Let me see\n/tool files {"operation":"list"}\n/say ignored');
  const frames = await collect(await client.follow(id, '?until=idle'));
  for (const { id: cursor, event, data } of frames) {
    assert.equal(cursor, String(data.seq));
    assert.equal(event, data.type);
    assert.equal(data.session_id, id);
    assert.match(String(data.created_at), /\+00:00$/);
  }
  const entries = frames.map((frame) => frame.data);
  assert.deepEqual(types(entries).slice(0, 5), [
    'user.message',
    'session.status_running',
    'agent.thinking',
    'agent.tool_use',
    'agent.tool_result',
  ]);
  const [, , thinking, call, result] = entries;
  assert.equal(thinking?.text, 'Let me see');
  assert.deepEqual(call?.input, { operation: 'list' });
  assert.equal(call?.tool, 'files');
  assert.equal(result?.tool_use_id, call?.tool_use_id);
  assert.equal(result?.is_error, false);
  assert.equal(typeof result?.output, 'string');
  const last = entries.at(-1);
  assert.equal(last?.stop_reason, 'end_turn');
  assert.deepEqual(Object.keys(last?.usage ?? {}), ['input_tokens', 'output_tokens', 'total_tokens']);
});

test('a bad event is 400 and logs nothing', async () => {
  const id = await client.create();
  const bodies = [
    undefined,
    {},
    { type: 'user.nothing' },
    { type: 'user.message' },
    { type: 'user.message', text: 7 },
    { type: 'user.message', text: 'x'.repeat(200_001) },
    { type: 'user.tool_confirmation' },
    { type: 'user.tool_confirmation', request_id: 'req_1' },
    { type: 'user.tool_confirmation', result: 'allow' },
    { type: 'user.tool_confirmation', request_id: 'req_1', result: 'maybe' },
    '{"type":',
    '[]',
    'null',
  ];
  for (const body of bodies) {
    const answer = await client.post(id, body);
    assert.equal(answer.status, 400, `${JSON.stringify(body)?.slice(0, 60)} gave ${answer.status} ${answer.text}`);
  }
  for (const query of ['?after=-1', '?after=x', '?until=later', '?deltas=perhaps']) {
    assert.equal((await client.request('GET', `/sessions/${id}/events/stream${query}`)).status, 400, query);
  }
  assert.deepEqual((await client.state(id)).events, []);
});

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

test('queued messages take their place in the log when their turn takes them; a 17th is refused', async () => {
  const id = await client.create();
  await client.say(id, '/delay 300\n/words 4');
  for (let index = 0; index < 16; index += 1) await client.say(id, `/say answer ${index}`);
  const refused = await client.post(id, { type: 'user.message', text: 'one too many' });
  assert.equal(refused.status, 429);
  assert.ok(Number(refused.headers['retry-after']) >= 1);
  const stream = await client.follow(id);
  let turns = 0;
  const frames = await readUntil(stream[Symbol.asyncIterator](), ({ data }) => data.type === 'session.status_idle' && ++turns === 17);
  stream.leave();
  const entries = frames.map((frame) => frame.data);
  for (let turn = 0; turn < 17; turn += 1) {
    assert.deepEqual(types(entries.slice(turn * 4, turn * 4 + 4)), [
      'user.message',
      'session.status_running',
      'agent.message',
      'session.status_idle',
    ]);
  }
  assert.equal(entries.at(-2)?.text, 'answer 15');
});

test('user.interrupt ends a running turn with interrupted, and a paused one', async () => {
  const id = await client.create();
  await client.say(id, '/delay 50\n/words 500');
  const stream = await client.follow(id, '?deltas=true');
  const iterator = stream[Symbol.asyncIterator]();
  await readUntil(iterator, ({ event }) => event === 'agent.message_delta');
  assert.equal((await client.post(id, { type: 'user.interrupt' })).status, 202);
  const frames = (await readUntil(iterator, ({ event }) => event === 'session.status_idle')).map((frame) => frame.data);
  assert.equal(frames.at(-1)?.stop_reason, 'interrupted');
  assert.ok(types(frames).includes('user.interrupt'));
  stream.leave();
  await client.say(id, bash);
  const pause = (await client.untilIdle(id, frames.at(-1)?.seq)).at(-1);
  await client.post(id, { type: 'user.interrupt' });
  const rest = await client.untilIdle(id, pause?.seq);
  assert.equal(rest[0]?.type, 'user.interrupt');
  assert.equal(rest.at(-1)?.stop_reason, 'interrupted');
  assert.equal((await client.post(id, { type: 'user.interrupt' })).status, 202, 'nothing to interrupt is fine');
  assert.equal((await client.state(id)).events.at(-1)?.seq, rest.at(-1)?.seq);
});

test('a failed turn ends with session.error, and the session takes the next message', async () => {
  const id = await client.create();
  await client.say(id, '/fail unauthorized');
  const failed = (await client.untilIdle(id)).at(-1);
  assert.equal(failed?.type, 'session.error');
  assert.equal(typeof failed?.code, 'string');
  assert.equal(typeof failed?.message, 'string');
  assert.equal((await client.state(id)).status, 'idle');
  await client.say(id, '/say back again');
  assert.equal((await client.untilIdle(id, failed?.seq)).at(-1)?.type, 'session.status_idle');
});

test('max_steps is a stop_reason', async () => {
  await app.request('POST', '/api/agents', { slug: 'short' });
  const release = await app.request('POST', '/api/agents/short/releases', { activate: true, tools: ['files'], limits: { max_steps: 1 } });
  assert.equal(release.status, 201, release.text);
  const short = new ManagedClient(app, app.apiKey, 'demo/short');
  const id = await short.create();
  await short.say(id, '/tool files {"operation":"list"}');
  assert.equal((await short.untilIdle(id)).at(-1)?.stop_reason, 'max_steps');
});

test('the stream resumes after any seq, and the larger of after and Last-Event-ID wins', async () => {
  const id = await client.create();
  await client.say(id, '/think hm\n/say one');
  const all = await client.untilIdle(id);
  for (let cursor = 0; cursor < all.length; cursor += 1) {
    assert.deepEqual(await client.untilIdle(id, cursor), all.slice(cursor));
  }
  const from = async (query: string, header: string) => {
    const frames = await collect(await client.follow(id, `?until=idle${query}`, { 'last-event-id': header }));
    return frames[0]?.data.seq;
  };
  assert.equal(await from('', '2'), 3);
  assert.equal(await from('&after=1', '3'), 4);
  assert.equal(await from('&after=3', '1'), 4);
  assert.equal(await from('&after=1', 'nonsense'), 2);
});

test('a cursor beyond the log misses nothing that comes', async () => {
  const id = await client.create();
  const stream = await client.follow(id, '?after=1000&until=idle');
  await client.say(id, '/say hello');
  const frames = await collect(stream);
  assert.deepEqual(
    frames.map((frame) => frame.data.seq),
    [1, 2, 3, 4],
  );
});

test('the stream stays open across turns', async () => {
  const id = await client.create();
  const stream = await client.follow(id);
  const iterator = stream[Symbol.asyncIterator]();
  for (const word of ['one', 'two', 'three']) {
    await client.say(id, `/say ${word}`);
    const frames = await readUntil(iterator, ({ data }) => data.type === 'session.status_idle');
    assert.equal(frames.at(-2)?.data.text, word);
  }
  stream.leave();
});

test('deltas come without id or seq, and their sum is the agent.message that follows', async () => {
  const id = await client.create();
  const stream = await client.follow(id, '?deltas=true&until=idle');
  await client.say(id, '/words 40');
  const frames = await collect(stream);
  let sum = '';
  for (const { id: cursor, event, data } of frames) {
    if (event === 'agent.message_delta') {
      assert.equal(data.seq, undefined);
      assert.ok(cursor === undefined || cursor === '2', 'a delta leaves the cursor alone');
      sum += data.text;
    }
    if (event === 'agent.message') assert.equal(sum, data.text);
  }
  assert.ok(frames.filter((frame) => frame.event === 'agent.message_delta').length > 10);
  const plain = await client.untilIdle(id);
  assert.deepEqual(
    plain,
    frames.map((frame) => frame.data).filter((data) => data.seq !== undefined),
  );
});

test('a stream that begins in the middle of a message previews it from its first word', async () => {
  const id = await client.create();
  const early = await client.follow(id, '?deltas=true');
  await client.say(id, '/delay 15\n/words 60');
  let seen = 0;
  const iterator = early[Symbol.asyncIterator]();
  await readUntil(iterator, ({ event }) => event === 'agent.message_delta' && ++seen === 5);
  const late = await collect(await client.follow(id, '?deltas=true&until=idle'));
  early.leave();
  const sum = late.filter((frame) => frame.event === 'agent.message_delta').reduce((text, frame) => text + frame.data.text, '');
  const whole = late.find((frame) => frame.event === 'agent.message')?.data.text;
  assert.equal(sum, whole);
});

test('what is said over the native API is in the managed log too', async () => {
  const id = await client.create();
  const answer = await app.request('POST', `/demo/assistant/v1/sessions/${id}/messages`, { text: '/say from afar' });
  assert.equal(answer.status, 200, answer.text);
  const { events } = await client.state(id);
  assert.equal(events[2]?.text, 'from afar');
});

test('an Idempotency-Key posts a message once', async () => {
  const id = await client.create();
  const event = { type: 'user.message', text: '/say once' };
  const headers = { 'idempotency-key': `managed ${id}` };
  assert.equal((await client.post(id, event, headers)).status, 202);
  await client.untilIdle(id);
  const again = await client.post(id, event, headers);
  assert.equal(again.status, 202);
  assert.equal(again.headers['idempotent-replayed'], 'true');
  assert.equal((await client.state(id)).events.length, 4);
  assert.equal((await client.post(id, { ...event, text: '/say twice' }, headers)).status, 422);
});

test('an interrupt that is repeated under its key does not stop a later turn', async () => {
  const id = await client.create();
  const interrupt = (event: unknown = { type: 'user.interrupt' }) => client.post(id, event, { 'idempotency-key': `stop ${id}` });
  await client.say(id, '/delay 60000\n/say one two');
  assert.equal((await interrupt()).status, 202);
  const stopped = (await client.untilIdle(id)).at(-1);
  assert.equal(stopped?.stop_reason, 'interrupted');
  await client.say(id, '/delay 20\n/words 5');
  const again = await interrupt();
  assert.deepEqual([again.status, again.headers['idempotent-replayed']], [202, 'true']);
  assert.equal((await client.untilIdle(id, stopped?.seq)).at(-1)?.stop_reason, 'end_turn');
  for (const other of [
    { type: 'user.message', text: 'hi' },
    { type: 'user.tool_confirmation', request_id: 'req_1', result: 'deny' },
  ])
    assert.equal((await interrupt(other)).status, 422);
});

test('an exhausted budget is 402 before the turn, and reading stays possible', async () => {
  const organization = await app.request(
    'POST',
    '/operator/organizations',
    { slug: 'broke' },
    { authorization: `Bearer ${app.operatorKey}` },
  );
  const key = String(fields(organization).api_key);
  const authorization = { authorization: `Bearer ${key}` };
  await app.request('POST', '/api/agents', { slug: 'bot' }, authorization);
  await app.request('POST', '/api/agents/bot/releases', { activate: true }, authorization);
  const broke = new ManagedClient(app, key, 'broke/bot');
  const id = await broke.create();
  await app.request('PATCH', '/operator/organizations/broke', { credits_micros: 0 }, { authorization: `Bearer ${app.operatorKey}` });
  const answer = await broke.post(id, { type: 'user.message', text: 'hello' });
  assert.equal(answer.status, 402);
  assert.deepEqual(fields(answer).detail, {
    error: 'budget_exhausted',
    message: 'The prepaid balance is used up.',
    reason: 'credits_exhausted',
  });
  assert.deepEqual((await broke.state(id)).events, []);
  assert.equal((await broke.request('GET', `/sessions/${id}/transcript`)).status, 200);
});
