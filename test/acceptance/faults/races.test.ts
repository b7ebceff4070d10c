// Many at once: what must happen once, or in order, or not beyond a limit.
// Runs alone when long: beside other tests, a thousand readers that come and go take more than the time for the test.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, startApp, type TestApp } from '../../support/app.ts';
import { chances, isLong, seed } from '../../support/chance.ts';
import { engine } from '../../support/engine.ts';
import { startServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { connect, type LogEntry, type Wire } from '../../support/wire.ts';

test('of a thousand concurrent turns exactly those are admitted that fit the cap, and no reservation is left', {
  timeout: 180_000,
}, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_TURN_RESERVATION_TOKENS: '1000', PARLEY_RATE_LIMIT_RPS: '0' } });
  const turns = 1_000;
  // They stay until they are told to end: whoever comes later finds no room.
  const text = '/delay 60000\n/words 20';
  const reservation = 1_000 + Math.ceil(text.length / 4);
  await app.request('PUT', '/api/budget', { total_tokens_cap: reservation * 10 });
  const ids = await Promise.all(
    Array.from({ length: turns }, async () => {
      const answer = await persistently(() => app.request('POST', '/v1/sessions', {}));
      return answer.body.id;
    }),
  );
  const refusedIds = new Set<string>();
  const asking = ids.map(async (id) => {
    const answer = await persistently(() => app.request('POST', `/v1/sessions/${id}/messages`, { text }));
    if (answer.status === 402) refusedIds.add(id);
    return answer;
  });
  for (const end = Date.now() + 90_000; refusedIds.size < turns - 10 && Date.now() < end; ) await sleep(20);
  for (const id of ids.filter((one) => !refusedIds.has(one))) {
    await app.request('POST', `/demo/assistant/v1/managed-agents/sessions/${id}/events`, { type: 'user.interrupt' });
  }
  const answers = await Promise.all(asking);
  const admitted = answers.filter((answer) => answer.status === 200);
  const refused = answers.filter((answer) => answer.status === 402);
  assert.deepEqual([admitted.length, refused.length], [10, turns - 10]);
  const used = admitted.reduce((sum, answer) => sum + answer.body.usage.total_tokens, 0);
  const { budget } = (await app.request('GET', '/api/budget')).body;
  assert.deepEqual([budget.tokens_used, budget.reserved_tokens, budget.reserved_micros], [used, 0, 0]);
});

test('one approval answered a hundred ways at once: one answer wins, and the tool runs once or, denied, not at all', async (t) => {
  const app = await startApp(t);
  const managed = '/demo/assistant/v1/managed-agents/sessions/race/events';
  const ways = [
    (requestId: string, decision: string) => app.request('PUT', `/v1/sessions/race/inputs/${requestId}`, { decision }),
    (requestId: string, decision: string) => app.request('PUT', `/demo/assistant/v1/sessions/race/inputs/${requestId}`, { decision }),
    (requestId: string, result: string) => app.request('POST', managed, { type: 'user.tool_confirmation', request_id: requestId, result }),
  ];
  await app.request('POST', '/v1/sessions', { session_id: 'race' });
  const paused = await app.request('POST', '/v1/sessions/race/messages', {
    text: '/tool bash {"command":"echo ran >> log.txt; cat log.txt"}',
  });
  const { request_id: requestId } = paused.body.pending_input;
  t.diagnostic(`seed ${seed}`);
  const chance = chances(seed);
  const submits = Array.from({ length: 100 }, (_, index) => ({
    decision: pick(['approve_once', 'approve_session', 'deny'], chance),
    way: ways[index % ways.length] ?? ways[0],
  }));
  const answers = await Promise.all(submits.map(({ way, decision }) => way?.(requestId, decision)));
  const isAccepted = (index: number) => answers[index]?.status === 200 || answers[index]?.status === 202;
  const winners = new Set(submits.filter((_submit, index) => isAccepted(index)).map(({ decision }) => decision));
  assert.equal(winners.size, 1, `one decision won: ${[...winners]}`);
  assert.ok(answers.every((answer, index) => isAccepted(index) || answer?.status === 409));
  await until(async () => (await readLog(app, 'race')).at(-1)?.type === 'session.status_idle');
  const log = await readLog(app, 'race');
  assert.equal(log.filter((entry) => entry.type === 'user.tool_confirmation').length, 1);
  const results = log.filter((entry) => entry.type === 'agent.tool_result');
  assert.equal(results.length, 1);
  if (!winners.has('deny')) assert.equal(results[0]?.output, 'ran', 'it ran once');
});

test('a turn keeps its lease while another, whose lease is renewed with it, is being written', { skip: engine === 'pglite' }, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '1000' } });
  const { database, runner } = app.context;
  for (const id of ['first', 'second']) {
    await app.request('POST', '/v1/sessions', { session_id: id });
    const event = { type: 'user.message', text: '/delay 60000\n/words 2' };
    await app.request('POST', `/demo/assistant/v1/managed-agents/sessions/${id}/events`, event);
  }
  const turnOf = (id: string) => {
    const turn = database.db
      .selectFrom('turns')
      .select('lease_until')
      .where('id', '=', runner.turnOf(id) ?? '');
    return {
      lock: (db: typeof database.db) => db.executeQuery(turn.forUpdate()),
      lease: async () => (await turn.executeTakeFirst())?.lease_until,
    };
  };
  // As a batch of writes does that ends both.
  for (const [one, other] of [
    ['first', 'second'],
    ['second', 'first'],
  ] as const) {
    await database.db.transaction().execute(async (transaction) => {
      await turnOf(one).lock(transaction);
      const before = await turnOf(other).lease();
      await until(async () => Number(await turnOf(other).lease()) > Number(before), 3_000);
    });
  }
  for (const id of ['first', 'second']) await app.request('DELETE', `/demo/assistant/v1/sessions/${id}`);
});

test('64 writers on one session and followers that come and go: each sees every seq once, in order', { timeout: 300_000 }, async (t) => {
  t.diagnostic(`seed ${seed}`);
  // In a process of its own: a thousand clients in the server's would be what keeps it busy.
  const { url, apiKey } = await startServer(t, { settings: { PARLEY_RATE_LIMIT_RPS: '0' } });
  const client = connect(url, apiKey);
  await client.post('/v1/sessions', { session_id: 'busy' });
  const [writers, followers] = [64, isLong ? 1_000 : 40];
  const chance = chances(seed);
  const expected = writers * 4;
  const watching = Array.from({ length: followers }, () => followUntil(client, expected, chances(Math.floor(chance() * 2 ** 31))));
  await Promise.all(Array.from({ length: writers }, (_, index) => send(client, index)));
  for (const seen of await Promise.all(watching)) {
    assert.deepEqual(
      seen,
      Array.from({ length: expected }, (_, index) => index + 1),
    );
  }
});

/** A busy machine may shed some of a thousand at once: those come again, as clients do. */
async function persistently(request: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await request();
    if (answer.status !== 503) return answer;
    assert.match(String(answer.headers['retry-after']), /^[1-9]\d*$/);
    await sleep(100);
  }
}

/** Waits its turn: a full line is answered with 429, and a machine that is behind with 503. */
async function send(client: Wire, index: number): Promise<void> {
  for (;;) {
    const { status } = await client.post('/v1/sessions/busy/messages', { text: `/say ${index}` });
    if (status === 200) return;
    assert.ok(status === 429 || status === 503, `${status}`);
    await sleep(20);
  }
}

function pick<Value>(values: [Value, ...Value[]], chance: () => number): Value {
  return values[Math.floor(chance() * values.length)] ?? values[0];
}

/** Drops the stream now and then and resumes after the last seq it saw. */
async function followUntil(client: Wire, last: number, chance: () => number): Promise<number[]> {
  const seen: number[] = [];
  while (seen.length < last) {
    const abort = new AbortController();
    const patience = 1 + Math.floor(chance() * 20);
    let taken = 0;
    try {
      for await (const entry of client.follow('assistant', 'busy', seen.at(-1) ?? 0, abort.signal)) {
        seen.push(entry.seq);
        taken += 1;
        if (seen.length >= last || taken >= patience) break;
      }
    } catch {
      // Dropped; the next round resumes.
    }
    abort.abort();
    // Sent away for now: a thousand that come back at once would keep the writers out.
    if (taken === 0) await sleep(50);
  }
  return seen;
}

async function readLog(app: TestApp, sessionId: string): Promise<LogEntry[]> {
  return (await app.request('GET', `/demo/assistant/v1/managed-agents/sessions/${sessionId}`)).body.events;
}
