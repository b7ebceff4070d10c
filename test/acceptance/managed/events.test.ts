import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { ManagedClient, readUntil, types } from '../../support/managed.ts';

const app = await startApp({ after });
const client = new ManagedClient(app);
const bash = '/tool bash {"command":"echo hi"}';

test('a user.message is accepted with 202, runs in the background, and the session is running from then on', async () => {
  const id = await client.create();
  const answer = await client.post(id, { type: 'user.message', text: '/delay 20\n/words 5' });
  assert.equal(answer.status, 202);
  assert.deepEqual(answer.body, { accepted: true });
  assert.equal((await client.state(id)).status, 'running');
  const entries = await client.untilIdle(id);
  assert.deepEqual(types(entries), ['user.message', 'session.status_running', 'agent.message', 'session.status_idle']);
  assert.equal((await client.state(id)).status, 'idle');
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
    { type: 'user.tool_confirmation', request_id: '', result: 'allow' },
    { type: 'user.tool_confirmation', request_id: 'req_1', result: 'maybe' },
    '{"type":',
    '[]',
    'null',
  ];
  for (const body of bodies) {
    const answer = await client.post(id, body);
    assert.equal(answer.status, 400, `${JSON.stringify(body)?.slice(0, 60)} gave ${answer.status} ${answer.text}`);
  }
  for (const query of ['?after=-1', '?after=x', '?after=1.5', '?until=later', '?deltas=perhaps']) {
    assert.equal((await client.request('GET', `/sessions/${id}/events/stream${query}`)).status, 400, query);
  }
  assert.equal((await client.post(id, { type: 'user.interrupt' }, { 'idempotency-key': 'x'.repeat(256) })).status, 400);
  assert.deepEqual((await client.state(id)).events, []);
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

test("a client library's own retry posts a message once", async () => {
  const id = await client.create();
  const post = (count: string) => client.post(id, { type: 'user.message', text: '/say once' }, { 'x-stainless-retry-count': count });
  assert.equal((await post('0')).status, 202);
  await client.untilIdle(id);
  assert.equal((await post('1')).status, 202);
  assert.equal((await client.state(id)).events.length, 4);
  assert.equal((await post('0')).status, 202);
  assert.equal((await client.untilIdle(id, 4)).length, 4);
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
  // As a process leaves it that died before it answered: what it stopped, if anything, has ended by now.
  await app.context.database.db
    .updateTable('idempotency_keys')
    .set({ response: null, held_until: new Date(Date.now() - 1) })
    .where('key', '=', `stop ${id}`)
    .execute();
  const unknown = await interrupt();
  assert.deepEqual([unknown.status, unknown.body.detail.error], [409, 'outcome_unknown']);
});

test('an interrupt whose answer from the database was lost is not repeated under its key: it may have been carried out', async (t) => {
  const id = await client.create();
  const interrupt = () => client.post(id, { type: 'user.interrupt' }, { 'idempotency-key': `lost ${id}` });
  await client.say(id, '/delay 60000\n/say one two');
  const { log } = app.context;
  const apply = log.apply.bind(log);
  t.mock.method(
    log,
    'apply',
    async (operation: Parameters<typeof apply>[0]) => {
      await apply(operation);
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    },
    { times: 1 },
  );
  assert.equal((await interrupt()).status, 503);
  // Its process learns of the interrupt with the next notice.
  const [turnId = ''] = app.context.runner.running.keys();
  app.context.runner.interrupt(turnId);
  const stopped = (await client.untilIdle(id)).at(-1);
  assert.equal(stopped?.stop_reason, 'interrupted');
  await client.say(id, '/delay 20\n/words 5');
  const again = await interrupt();
  assert.deepEqual([again.status, again.body.detail.error], [409, 'outcome_unknown']);
  assert.equal((await client.untilIdle(id, stopped?.seq)).at(-1)?.stop_reason, 'end_turn');
});

test('an interrupt that is sent twice at once under its key is carried out once', async (t) => {
  const id = await client.create();
  const interrupt = () => client.post(id, { type: 'user.interrupt' }, { 'idempotency-key': `at once ${id}` });
  const carriedOut = t.mock.method(app.context.turns, 'interrupt').mock;
  const answers = await Promise.all([interrupt(), interrupt()]);
  assert.equal(carriedOut.callCount(), 1);
  // The second may also come when the first is done, and is then given its answer again.
  const statuses = answers.map(({ status }) => status).sort();
  assert.ok(statuses[0] === 202 && [202, 409].includes(statuses[1] ?? 0), String(statuses));
  assert.equal((await interrupt()).headers['idempotent-replayed'], 'true');
});

test('an exhausted budget is 402 before the turn, and reading stays possible', async () => {
  const organization = await app.request(
    'POST',
    '/operator/organizations',
    { slug: 'broke' },
    { authorization: `Bearer ${app.operatorKey}` },
  );
  const key = String(organization.body.api_key);
  const authorization = { authorization: `Bearer ${key}` };
  await app.request('POST', '/api/agents', { slug: 'bot' }, authorization);
  await app.request('POST', '/api/agents/bot/releases', { activate: true }, authorization);
  const broke = new ManagedClient(app, key, 'broke/bot');
  const id = await broke.create();
  await app.request('PATCH', '/operator/organizations/broke', { credits_micros: 0 }, { authorization: `Bearer ${app.operatorKey}` });
  const answer = await broke.post(id, { type: 'user.message', text: 'hello' });
  assert.equal(answer.status, 402);
  assert.deepEqual(answer.body.detail, {
    error: 'budget_exhausted',
    message: 'The prepaid balance is exhausted.',
    reason: 'credits_exhausted',
  });
  assert.deepEqual((await broke.state(id)).events, []);
  assert.equal((await broke.request('GET', `/sessions/${id}/transcript`)).status, 200);
});
