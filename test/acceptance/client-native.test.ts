// The client's native calls, against a running server.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import {
  AuthenticationError,
  ConflictError,
  NotFoundError,
  ParleyClient,
  RateLimitError,
  type TurnEvent,
  TurnText,
  UnavailableError,
  ValidationError,
} from '../../client/src/index.ts';
import { startApp } from '../support/app.ts';
import { startBreakingProxy } from '../support/breaking-proxy.ts';
import { serveProvider } from '../support/provider-server.ts';
import { startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';

const app = await startApp({ after });
const baseUrl = await app.listen();
const client = new ParleyClient({ baseUrl, apiKey: app.apiKey, agent: 'demo/assistant' });

test('a session is created, fetched, listed, read and stopped', async () => {
  const session = await client.sessions.create({ metadata: { end_user_id: 'ann', plan: 'pro' } });
  assert.equal(session.agent?.ref, 'demo/assistant');
  assert.equal((await client.sessions.get(session.id)).metadata.plan, 'pro');
  const reply = await client.messages.send(session.id, '/say Good morning');
  assert.equal(reply.text, 'Good morning');
  assert.ok(reply.usage.total_tokens > 0);
  const listed = await client.sessions.list({ per_page: 200, active: true });
  assert.equal(listed.sessions.find(({ id }) => id === session.id)?.end_user_id, 'ann');
  assert.deepEqual((await client.sessions.transcript(session.id)).messages, [
    { role: 'user', text: '/say Good morning' },
    { role: 'assistant', text: 'Good morning' },
  ]);
  assert.equal(await client.sessions.stop(session.id), undefined);
  assert.equal((await client.sessions.get(session.id)).status, 'stopped');
});

test('without an agent the calls go to the default agent, and those that need one say so', async () => {
  const flat = new ParleyClient({ baseUrl: `${baseUrl}/`, apiKey: async () => app.apiKey });
  const session = await flat.sessions.create();
  assert.equal(session.agent, undefined);
  assert.equal((await flat.messages.send(session.id, { text: '/say here' })).text, 'here');
  assert.throws(() => flat.sessions.list(), /client\.agent\('org\/agent'\)/);
  assert.equal((await flat.agent('demo/assistant').sessions.transcript(session.id)).messages.length, 2);
  assert.throws(() => new ParleyClient({ baseUrl, apiKey: 'a', sessionToken: 'b' }), /not both/);
});

test('a turn streams as typed events, whose text adds up', async () => {
  const session = await client.sessions.create();
  const events = await collect(client.messages.stream(session.id, { text: '/think let me see\n/say one two three', thinking: true }));
  assert.equal(textOf(events), 'one two three');
  assert.equal(events.map((event) => (event.type === 'reasoning' ? event.data.part.text : '')).join(''), 'let me see');
  assert.equal(events.at(-1)?.type, 'done');
});

test('a turn that needs permission ends its stream with the question, and goes on with the answer', async () => {
  const session = await client.sessions.create();
  const events = await collect(client.messages.stream(session.id, '/tool bash {"command":"echo approved"}'));
  const question = events.at(-1);
  assert.ok(question?.type === 'input_required');
  assert.equal(question.data.tool, 'bash');
  await assert.rejects(client.messages.send(session.id, 'hello?'), (error) => {
    assert.ok(error instanceof ConflictError);
    assert.equal(error.code, 'input_pending');
    return true;
  });
  const resolution = await client.inputs.resolve(session.id, question.data.request_id, 'approve_once');
  assert.equal(resolution.session.pending_input, null);
  assert.match(textOf(resolution.events), /approved/);
});

test('any other route is called by its name, with the same retries and errors', async () => {
  const { agent } = await client.request('POST /api/agents', { body: { slug: 'named', name: 'Named' } });
  assert.equal(agent.slug, 'named');
  const found = await client.request('GET /api/agents/{slug}', { path: { slug: agent.slug } });
  assert.equal(found.agent.name, 'Named');
  assert.equal((await client.request('GET /api/organization')).organization.slug, 'demo', 'one that needs nothing is given nothing');
  const { data } = await client.request('GET /api/agents', { query: { limit: 1 } });
  assert.equal(data.length, 1);
  assert.equal(await client.request('DELETE /api/agents/{slug}', { path: { slug: agent.slug } }), undefined);
  await assert.rejects(client.request('GET /api/agents/{slug}', { path: { slug: agent.slug } }), NotFoundError);
});

test('errors carry status, code, detail and request id', async () => {
  const stranger = new ParleyClient({ baseUrl, apiKey: 'svc_live_nobody_knows_this_key' });
  await assert.rejects(stranger.sessions.create(), (error) => {
    assert.ok(error instanceof AuthenticationError);
    assert.equal(error.status, 401);
    assert.equal(error.detail, 'Unauthorized');
    assert.match(error.requestId ?? '', /^rid_/);
    return true;
  });
  await assert.rejects(client.sessions.get('ses_unknown'), NotFoundError);
  await assert.rejects(client.sessions.create({ session_id: 'no spaces' }), ValidationError);
});

test('a refusal of the provider is told at once and not tried again', async () => {
  const proxy = await startBreakingProxy(baseUrl, () => undefined);
  after(proxy.close);
  const session = await client.sessions.create();
  const behind = new ParleyClient({ baseUrl: proxy.origin, apiKey: app.apiKey });
  await assert.rejects(behind.messages.send(session.id, '/fail rate_limited'), (error) => {
    assert.ok(error instanceof RateLimitError);
    assert.equal(error.code, 'rate_limited');
    assert.ok((error.retryAfterSeconds ?? 0) > 0);
    return true;
  });
  assert.equal(proxy.passed.length, 1);
});

test('a lost answer is asked for again with the same key, and the turn runs once', async () => {
  // Nothing of it arrives, or its head and a first byte.
  for (const cutAfterBytes of [0, 1]) {
    const proxy = await startBreakingProxy(baseUrl, (_passed, index) => (index === 0 ? { cutAfterBytes } : undefined));
    after(proxy.close);
    const session = await client.sessions.create();
    const reply = await new ParleyClient({ baseUrl: proxy.origin, apiKey: app.apiKey }).messages.send(session.id, '/say once');
    assert.equal(reply.text, 'once');
    assert.equal(proxy.passed.length, 2);
    assert.ok(proxy.passed[0]?.idempotencyKey);
    assert.equal(proxy.passed[0]?.idempotencyKey, proxy.passed[1]?.idempotencyKey);
    assert.equal((await client.sessions.transcript(session.id)).messages.length, 2);
  }
});

test('429 and 503 are tried again, no sooner than Retry-After says', async () => {
  const refusals = [
    { status: 503, headers: { 'retry-after': '1' }, body: '{"detail":"Draining"}' },
    { status: 429, headers: {}, body: '{"detail":"Too many requests."}' },
  ];
  const proxy = await startBreakingProxy(baseUrl, (_passed, index) => refusals[index]);
  after(proxy.close);
  const behind = new ParleyClient({ baseUrl: proxy.origin, apiKey: app.apiKey });
  const started = Date.now();
  assert.match((await behind.sessions.create()).id, /^ses_/);
  assert.equal(proxy.passed.length, 3);
  assert.ok(Date.now() - started >= 1_000);
  const impatient = new ParleyClient({ baseUrl: proxy.origin, apiKey: app.apiKey, maxRetries: 0 });
  proxy.passed.length = 0;
  await assert.rejects(impatient.sessions.create(), (error) => error instanceof Error && error.message === 'Draining');
});

test('what the server says of trying again is done: a request that its first copy still holds up is, a failed turn is not', async () => {
  const session = await client.sessions.create();
  const inUse = { error: 'idempotency_key_in_use', message: 'The first request with this Idempotency-Key has not finished yet.' };
  const refusals = [
    { status: 408, headers: { 'x-should-retry': 'true' }, body: '{"detail":"The request did not arrive in time."}' },
    { status: 409, headers: { 'x-should-retry': 'true' }, body: JSON.stringify({ detail: inUse }) },
    undefined,
    { status: 503, headers: { 'x-should-retry': 'false', 'retry-after': '1' }, body: '{"detail":"Not again."}' },
  ];
  const proxy = await startBreakingProxy(baseUrl, (_passed, index) => refusals[index]);
  after(proxy.close);
  const { managed } = new ParleyClient({ baseUrl: proxy.origin, apiKey: app.apiKey, agent: 'demo/assistant' });
  assert.deepEqual(await managed.upload(session.id, 'notes.txt', 'hello'), { accepted: true, path: 'uploads/notes.txt' });
  assert.equal(new Set(proxy.passed.map(({ idempotencyKey }) => idempotencyKey)).size, 1);
  await assert.rejects(managed.get(session.id), (error) => error instanceof UnavailableError && error.message === 'Not again.');
  assert.equal(proxy.passed.length, 4);
});

test('a stream that is cut goes on where it was, and the turn runs once', async () => {
  const session = await client.sessions.create();
  const text = Array.from({ length: 40 }, (_, index) => `word${index}`).join(' ');
  for (const cutAfterBytes of [1, 300, 1_000, 2_500]) {
    const proxy = await startBreakingProxy(baseUrl, (_passed, index) => (index === 0 ? { cutAfterBytes } : undefined));
    const events = await collect(
      new ParleyClient({ baseUrl: proxy.origin, apiKey: app.apiKey }).messages.stream(session.id, `/delay 2\n/say ${text}`),
    );
    proxy.close();
    assert.equal(textOf(events), text);
    assert.equal(proxy.passed.length, 2);
    assert.deepEqual(
      events.map(({ type }) => type).filter((type) => type !== 'text'),
      ['step_start', 'step_finish', 'done'],
    );
  }
  const { messages } = await client.agent('demo/assistant').sessions.transcript(session.id);
  assert.equal(messages.length, 8);
});

test('a stream that the server ends goes on where it was, and the end of the stream is no end of the turn', async () => {
  const session = await client.sessions.create();
  const events: TurnEvent[] = [];
  for await (const event of client.messages.stream(session.id, '/delay 20\n/words 20')) {
    events.push(event);
    if (events.length === 3) app.server.streams.close();
  }
  assert.equal(textOf(events).split(' ').length, 20);
  assert.deepEqual(
    events.map(({ type }) => type).filter((type) => type !== 'text'),
    ['step_start', 'step_finish', 'done'],
  );
});

test('streams outlive a kill of the server: the same words are given once, other words in the place of the first', async (context) => {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const second = chunk({ content: 'The hills ' }) + chunk({ content: 'are green.' }) + chunk({}, 'stop');
  const model = await serveProvider({ body: chunk({ content: 'The sea is' }), hang: true }, { body: `${second}data: [DONE]\n\n` });
  context.after(() => model.close());
  const settings = { PARLEY_LEASE_MS: '1000', PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' };
  const server = await startServer({ after: (work) => context.after(work) }, { settings });
  const steady = new ParleyClient({ baseUrl: server.url, apiKey: server.apiKey, agent: 'demo/assistant', maxRetries: 20 });
  const poet = steady.agent('demo/poet');
  const config = { provider: 'openai-compatible' as const, name: 'scripted', base_url: `${model.origin}/v1` };
  await poet.request('POST /api/agents', { body: { slug: 'poet', name: 'Poet' } });
  await poet.request('POST /api/agents/{slug}/releases', { path: { slug: 'poet' }, body: { model: config, activate: true } });
  await until(async () => {
    const { data } = await poet.request('GET /api/agents/{slug}/releases', { path: { slug: 'poet' } });
    return data[0]?.state === 'materialized';
  });
  const [same, other] = [await steady.sessions.create(), await poet.sessions.create()];
  const following = collect(poet.managed.events(other.id, { deltas: true, until: 'idle' }));
  let count = '';
  const counting = (async () => {
    for await (const event of steady.messages.stream(same.id, '/delay 50\n/words 30'))
      if (event.type === 'text') count += event.data.part.text;
  })();
  const answer = new TurnText();
  const shown: string[] = [];
  let restarted: Promise<void> | undefined;
  for await (const event of poet.messages.stream(other.id, 'What do you see?')) {
    answer.add(event);
    if (event.type !== 'text') continue;
    shown.push(answer.text);
    restarted ??= until(async () => count !== '')
      .then(() => server.kill())
      .then(() => server.start());
  }
  await Promise.all([restarted, counting]);
  assert.deepEqual(
    (await steady.sessions.transcript(same.id)).messages.map(({ text }) => text),
    ['/delay 50\n/words 30', count],
  );
  const whole = 'The hills are green.';
  assert.deepEqual(
    (await poet.sessions.transcript(other.id)).messages.map(({ text }) => text),
    ['What do you see?', whole],
  );
  assert.equal(answer.text, whole);
  assert.equal(shown[0], 'The sea is');
  assert.ok(
    shown.slice(1).every((text) => whole.startsWith(text)),
    `old and new words together: ${shown}`,
  );
  const log = await following;
  const message = log.find((event) => event.type === 'agent.message');
  const preview = log.map((event) => (event.type === 'agent.message_delta' && event.message_id === message?.message_id ? event.text : ''));
  assert.ok(whole.startsWith(preview.join('')), `the deltas of a message are not its text: ${preview.join('')}`);
});

test('the signal stops the waiting, not the turn', async () => {
  const session = await client.sessions.create();
  const abort = new AbortController();
  await assert.rejects(async () => {
    for await (const event of client.messages.stream(session.id, '/delay 20\n/say a b c d', { signal: abort.signal }))
      if (event.type === 'text') abort.abort(new Error('enough'));
  }, /enough/);
  assert.match((await client.messages.send(session.id, '/say next')).text, /next/);
  assert.equal((await client.sessions.transcript(session.id)).messages[1]?.text, 'a b c d');
});

async function collect<Event>(events: AsyncIterable<Event>): Promise<Event[]> {
  const all: Event[] = [];
  for await (const event of events) all.push(event);
  return all;
}

function textOf(events: TurnEvent[]): string {
  return events.map((event) => (event.type === 'text' ? event.data.part.text : '')).join('');
}
