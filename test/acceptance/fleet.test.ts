// Several processes on one PostgreSQL: any of them serves any request, whichever runs the turn.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createDatabase, engine, type TestDatabase } from '../support/engine.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';
import { connect, type LogEntry, type Wire } from '../support/wire.ts';

describe('a fleet on PostgreSQL', { skip: engine === 'pglite' ? 'the embedded database takes one process' : false }, () => {
  let database: TestDatabase;
  let first: ServerProcess;
  let second: ServerProcess;
  let one: Wire;
  let two: Wire;
  const settings = { PARLEY_LEASE_MS: '1500' };
  const endings: (() => Promise<void>)[] = [];
  const owner = { after: (work: () => Promise<void>) => void endings.push(work) };

  before(async () => {
    database = await createDatabase();
    first = await startServer(owner, { database, settings });
    second = await startServer(owner, { database, settings });
    one = connect(first.url, first.apiKey);
    two = connect(second.url, second.apiKey);
  });
  after(async () => {
    for (const end of endings) await end();
    await database.remove();
  });

  test('an approval asked for by one process is answered at another', async () => {
    await one.post('/v1/sessions', { session_id: 'approve' });
    const paused = await one.post('/v1/sessions/approve/messages', { text: '/tool bash {"command":"echo done"}' });
    const { request_id: requestId } = paused.body.pending_input;
    const resolved = await two.put(`/v1/sessions/approve/inputs/${requestId}`, { decision: 'approve_once' });
    assert.equal(resolved.status, 200);
    assert.match(JSON.stringify(resolved.body.events), /bash answered: done/);
  });

  test('a turn is interrupted from another process, and messages of both run in the order they came', async () => {
    await one.post('/v1/sessions', { session_id: 'order' });
    const slow = one.post('/v1/sessions/order/messages', { text: '/delay 100\n/words 200' });
    await until(async () => (await statusOf(two, 'order')) === 'running');
    const queued = two.post('/v1/sessions/order/messages', { text: '/say second' });
    await two.post('/demo/assistant/v1/managed-agents/sessions/order/events', { type: 'user.interrupt' });
    assert.equal((await slow).status, 200);
    assert.equal((await queued).body.text, 'second');
    const log = await readLog(one, 'order');
    assert.deepEqual(
      log.filter((entry) => entry.type === 'session.status_idle').map((entry) => entry.stop_reason),
      ['interrupted', 'end_turn'],
    );
    assertGapless(log);
  });

  test('live text of a turn is seen at another process before it is stored, and adds up to what is', async () => {
    await one.post('/v1/sessions', { session_id: 'live' });
    const watch = (after: number) => {
      const url = `${second.url}/demo/assistant/v1/managed-agents/sessions/live/events/stream?deltas=true&until=idle&after=${after}`;
      return fetch(url, { headers: { authorization: `Bearer ${second.apiKey}` } });
    };
    const early = await watch(0);
    const said = one.post('/v1/sessions/live/messages', { text: '/delay 50\n/words 40' });
    let shown = '';
    let late: Promise<Response> | undefined;
    for await (const piece of early.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      shown += piece;
      if (shown.includes('agent.message_delta')) late ??= watch(0);
    }
    assert.ok(countPreviews(shown) > 1);
    assert.ok(countPreviews((await (await late)?.text()) ?? '') > 1, 'also to whoever joins in the middle');
    await said;

    const next = await watch(4);
    await one.post('/v1/sessions/live/messages', { text: `/delay 100\n/say at ${'length'.repeat(2_000)}` });
    assert.ok(countPreviews(await next.text()) > 1, 'nothing of the message before, and more than a notice holds');
  });

  test('a streamed message that waits for a turn of another process comes word by word', async () => {
    await one.post('/v1/sessions', { session_id: 'waits' });
    const ahead = one.post('/v1/sessions/waits/messages', { text: '/delay 400\n/words 2' });
    await until(async () => (await statusOf(two, 'waits')) === 'running');
    const { text } = await two.post('/v1/sessions/waits/messages', { text: '/delay 50\n/words 10', stream: true });
    await ahead;
    assert.ok(text.split('event: text\n').length > 4, text);
  });

  test('a revoked key is refused by every process within a second', async () => {
    const made = await one.post('/api/api_keys', { name: 'short-lived', scopes: ['agents:read'] });
    const { api_key: key, secret } = made.body;
    const other = connect(second.url, secret);
    assert.equal((await other.get('/api/agents')).status, 200);
    await one.delete(`/api/api_keys/${key.id}`);
    const revoked = Date.now();
    await until(async () => (await other.get('/api/agents')).status === 401);
    assert.ok(Date.now() - revoked < 1_000);
  });

  test('a turn whose process is killed goes on in another, and its watchers miss nothing', async () => {
    await one.post('/v1/sessions', { session_id: 'takeover' });
    const abort = new AbortController();
    const seen: LogEntry[] = [];
    const watching = collect(two.follow('assistant', 'takeover', 0, abort.signal), seen);
    await one.post('/demo/assistant/v1/managed-agents/sessions/takeover/events', {
      type: 'user.message',
      text: '/delay 50\n/words 30',
    });
    await until(async () => seen.some((entry) => entry.type === 'session.status_running'));
    await first.kill();
    await until(async () => seen.some((entry) => entry.type === 'session.status_idle'));
    abort.abort();
    await watching;
    assertGapless(seen);
    assert.deepEqual(
      seen.map((entry) => entry.type),
      ['user.message', 'session.status_running', 'agent.message', 'session.status_idle'],
    );
    await first.start();
  });

  test('columns that a newer version adds to tables do not disturb a process that runs', async () => {
    const converse = async (id: string) => {
      const made = await one.post('/v1/sessions', { session_id: id });
      const said = await one.post(`/v1/sessions/${id}/messages`, { text: '/say hello' });
      return [made.status, said.status];
    };
    // More than once, so that every connection has prepared its statements.
    for (let round = 0; round < 3; round += 1)
      await Promise.all(Array.from({ length: 8 }, (_, index) => converse(`before-${round}-${index}`)));
    const client = new pg.Client({ connectionString: database.settings.DATABASE_URL });
    await client.connect();
    for (const table of ['sessions', 'turns', 'events', 'agents', 'budgets', 'organizations'])
      await client.query(`alter table ${table} add column newer text`);
    await client.end();
    const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => converse(`after-${index}`)));
    assert.deepEqual(answers, Array(8).fill([200, 200]));
  });

  test('a rolling restart fails no request and runs none twice', async () => {
    await two.post('/v1/sessions', { session_id: 'rolling' });
    let stopped = false;
    const answers: number[] = [];
    const say = (target: Wire) =>
      target
        .post('/v1/sessions/rolling/messages', { text: '/say ok' }, { 'idempotency-key': `rolling-${answers.length}` })
        .catch(() => ({ status: 503 }));
    /** As a load balancer would: to a server that is ready, and what a stopping one refuses or cuts once more to the other. */
    const traffic = (async () => {
      while (!stopped) {
        const { status } = (await isReady(first)) ? await say(one) : { status: 503 };
        answers.push(status === 503 ? (await say(two)).status : status);
      }
    })();
    for (let round = 0; round < 2; round += 1) {
      await sleep(300);
      assert.equal(await first.stop('SIGTERM'), 0);
      await first.start();
    }
    stopped = true;
    await traffic;
    assert.ok(answers.length > 3);
    assert.deepEqual(
      answers.filter((status) => status !== 200),
      [],
    );
    const said = (await readLog(two, 'rolling')).filter((entry) => entry.type === 'user.message');
    assert.equal(said.length, answers.length);
  });

  test('of a session that was dropped, and made again for somebody else, the other processes remember nothing', async () => {
    const path = '/demo/assistant/v1/responses';
    const { token } = (await one.post('/api/agents/assistant/session_tokens', { end_user_id: 'ann' })).body;
    const [ann, annAtTwo] = [connect(first.url, token), connect(second.url, token)];
    const said = await ann.post(path, { input: `/say yes\n${'private '.repeat(2_000)}` });
    const id = said.headers.get('x-svc-session') ?? '';
    const more = await annAtTwo.post(path, { input: '/say and', conversation: id });
    for (const { body } of [said, more]) assert.equal((await ann.delete(`${path}/${body.id}`)).status, 200);
    // The others hear of it within a second.
    await sleep(2_000);
    await one.post('/v1/sessions', { session_id: id, metadata: { end_user_id: 'bob' } });
    for (const text of ['/say yes', '/say and']) await one.post(`/v1/sessions/${id}/messages`, { text });
    assert.equal((await annAtTwo.post(path, { input: '/say hers?', conversation: id })).status, 404);
    const { body } = await two.post(`/v1/sessions/${id}/messages`, { text: '/say his' });
    assert.ok(body.usage.input_tokens < 500, `${body.usage.input_tokens} tokens`);
  });
});

async function isReady(server: ServerProcess): Promise<boolean> {
  return fetch(`${server.url}/readyz`).then(
    (response) => response.status === 200,
    () => false,
  );
}

async function statusOf(client: Wire, sessionId: string): Promise<unknown> {
  return (await client.get(`/demo/assistant/v1/managed-agents/sessions/${sessionId}`)).body.status;
}

async function readLog(client: Wire, sessionId: string): Promise<LogEntry[]> {
  return (await client.get(`/demo/assistant/v1/managed-agents/sessions/${sessionId}`)).body.events;
}

async function collect(entries: AsyncGenerator<LogEntry>, into: LogEntry[]): Promise<void> {
  try {
    for await (const entry of entries) into.push(entry);
  } catch {
    // The watcher left.
  }
}

/** How many previews a stream had, each a part of a message that followed it, and together the whole of it. */
function countPreviews(stream: string): number {
  const frames = stream.split('\n\n').filter((frame) => frame.includes('data: '));
  const entries = frames.map((frame) => JSON.parse(frame.slice(frame.indexOf('data: ') + 6)));
  const previews = entries.filter((entry) => entry.type === 'agent.message_delta');
  const shown = Map.groupBy(previews, (entry) => entry.message_id);
  for (const [id, deltas] of shown) {
    const message = entries.find((entry) => entry.type === 'agent.message' && entry.message_id === id);
    assert.equal(deltas.map((delta) => delta.text).join(''), message?.text);
  }
  return previews.length;
}

function assertGapless(log: LogEntry[]): void {
  assert.deepEqual(
    log.map((entry) => entry.seq),
    log.map((_entry, index) => index + 1),
  );
}
