import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { startApp } from '../../support/app.ts';
import { ManagedClient } from '../../support/managed.ts';

const count = 100_000;
/** The log is about 130 MB as text, and nobody may hold it whole. Its reader, and garbage that waits, are in the figure too. */
const mostMiB = 100;

const app = await startApp({ after });
const client = new ManagedClient(app);
const id = await client.create({ prewarm: false });
await fillLog(id);

test('a log of 100,000 events is streamed whole in constant memory', { timeout: 120_000 }, async () => {
  const response = await open(`/sessions/${id}/events/stream`);
  const memory = watchMemory();
  let seen = 0;
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    rest += decoder.decode(chunk, { stream: true });
    const frames = rest.split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) if (frame.startsWith('id: ')) assert.equal(Number(/^id: (\d+)/.exec(frame)?.[1]), ++seen);
    if (seen === count) break;
  }
  assert.equal(seen, count);
  assertFlat(await memory.stop());
});

test('the state of a log of 100,000 events is sent whole in constant memory', { timeout: 120_000 }, async () => {
  const response = await open(`/sessions/${id}`);
  const memory = watchMemory();
  let entries = 0;
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    entries += Buffer.from(chunk).toString('latin1').split('"seq":').length - 1;
  }
  assert.ok(bytes > 100_000_000);
  // A marker may be cut in two by a chunk's edge.
  assert.ok(entries > count * 0.99 && entries <= count, `${entries} entries`);
  assertFlat(await memory.stop());
});

function assertFlat(grownMiB: number): void {
  assert.ok(grownMiB < mostMiB, `memory grew by ${grownMiB} MiB`);
}

async function open(path: string): Promise<Response> {
  const response = await fetch(`${await app.listen()}${client.base}${path}`, { headers: { authorization: `Bearer ${app.apiKey}` } });
  assert.equal(response.status, 200);
  return response;
}

/** How much live memory grew at most; what is only waiting to be collected does not count. */
function watchMemory(): { stop(): Promise<number> } {
  const used = () => {
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = used();
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  let running = true;
  const watching = (async () => {
    // The least of every half second is close to what a collection leaves behind.
    for (let round = 1; running; round += 1) {
      least = Math.min(least, used());
      if (round % 20 === 0) {
        most = Math.max(most, least - before);
        least = Number.POSITIVE_INFINITY;
      }
      await sleep(25);
    }
  })();
  return {
    async stop() {
      running = false;
      await watching;
      return Math.round(most / 2 ** 20);
    },
  };
}

async function fillLog(sessionId: string): Promise<void> {
  const { db } = app.context.database;
  const text = 'x'.repeat(1_000);
  for (let first = 1; first <= count; first += 10_000) {
    await sql`insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
      select s.org_id, s.id, number, 'turn_x', 'message-produced',
        json_build_object('messageId', 'msg_' || number, 'text', ${text}::text, 'step', 1, 'agent', 'main'), now()
      from sessions s, generate_series(${first}::integer, ${first + 9_999}::integer) number where s.id = ${sessionId}`.execute(db);
  }
  await db.updateTable('sessions').set({ last_seq: count }).where('id', '=', sessionId).execute();
}
