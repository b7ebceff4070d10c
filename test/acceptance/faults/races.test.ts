// Many at once: what must happen once, or in order, or not beyond a limit.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startApp, type TestApp } from '../../support/app.ts';
import { chances, isLong, seed } from '../../support/chance.ts';
import { clientOf, type LogEntry } from '../../support/client.ts';
import { until } from '../../support/turns.ts';

test('of a thousand concurrent turns exactly those are admitted that fit the cap, and no reservation is left', async (t) => {
  const app = await startApp(t, { settings: { PARLEY_TURN_RESERVATION_TOKENS: '1000', PARLEY_RATE_LIMIT_RPS: '0' } });
  const turns = isLong ? 1_000 : 200;
  const text = '/delay 100\n/words 20';
  const reservation = 1_000 + Math.ceil(text.length / 4);
  await app.request('PUT', '/api/budget', { total_tokens_cap: reservation * 10 });
  const ids = await Promise.all(
    Array.from({ length: turns }, async () => ((await app.request('POST', '/v1/sessions', {})).json as { id: string }).id),
  );
  const answers = await Promise.all(ids.map((id) => app.request('POST', `/v1/sessions/${id}/messages`, { text })));
  const admitted = answers.filter((answer) => answer.status === 200);
  const refused = answers.filter((answer) => answer.status === 402);
  assert.deepEqual([admitted.length, refused.length], [10, turns - 10]);
  const used = admitted.reduce((sum, answer) => sum + (answer.json as { usage: { total_tokens: number } }).usage.total_tokens, 0);
  const { budget } = (await app.request('GET', '/api/budget')).json as { budget: Record<string, number> };
  assert.deepEqual([budget.tokens_used, budget.reserved_tokens, budget.reserved_micros], [used, 0, 0]);
});

test('one approval answered a hundred times at once runs its tool once', async (t) => {
  const app = await startApp(t);
  await app.request('POST', '/v1/sessions', { session_id: 'race' });
  const paused = await app.request('POST', '/v1/sessions/race/messages', {
    text: '/tool bash {"command":"echo ran >> log.txt; cat log.txt"}',
  });
  const { request_id: requestId } = (paused.json as { pending_input: { request_id: string } }).pending_input;
  const decisions = Array.from({ length: 100 }, (_, index) => (['approve_once', 'deny', 'approve_session'] as const)[index % 3]);
  const answers = await Promise.all(decisions.map((decision) => app.request('PUT', `/v1/sessions/race/inputs/${requestId}`, { decision })));
  const accepted = new Set(decisions.filter((_decision, index) => answers[index]?.status === 200));
  assert.equal(accepted.size, 1, 'one decision won');
  assert.ok(answers.every((answer) => answer.status === 200 || answer.status === 409));
  const log = await readLog(app, 'race');
  assert.equal(log.filter((entry) => entry.type === 'user.tool_confirmation').length, 1);
  assert.equal(log.filter((entry) => entry.type === 'agent.tool_result').length, 1);
});

test('many writers on one session and followers that come and go: each sees every seq once, in order', async (t) => {
  t.diagnostic(`seed ${seed}`);
  const app = await startApp(t, { settings: { PARLEY_RATE_LIMIT_RPS: '0' } });
  const url = await app.listen();
  const client = clientOf({ url, apiKey: app.apiKey });
  await app.request('POST', '/v1/sessions', { session_id: 'busy' });
  const [writers, followers] = isLong ? [64, 1_000] : [24, 40];
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

/** Waits its turn: a full line is answered with 429. */
async function send(client: ReturnType<typeof clientOf>, index: number): Promise<void> {
  await until(async () => (await client.send('POST', '/v1/sessions/busy/messages', { text: `/say ${index}` })).status === 200);
}

/** Drops the stream now and then and resumes after the last seq it saw. */
async function followUntil(client: ReturnType<typeof clientOf>, last: number, chance: () => number): Promise<number[]> {
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
  }
  return seen;
}

async function readLog(app: TestApp, sessionId: string): Promise<LogEntry[]> {
  return ((await app.request('GET', `/demo/assistant/v1/managed-agents/sessions/${sessionId}`)).json as { events: LogEntry[] }).events;
}
