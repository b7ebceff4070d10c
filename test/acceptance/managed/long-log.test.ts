// Own process: it measures the memory of the process.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { sql } from 'kysely';
import { startApp } from '../../support/app.ts';
import { ManagedClient } from '../../support/managed.ts';

const count = 20_000;
/** The log is about 26 MB as text, of which nobody may hold more than some pages; measured 1, with the reader's own part. */
const mostMiB = 8;

const app = await startApp({ after });
const client = new ManagedClient(app);
const id = await client.create({ prewarm: false });
await fillLog(id);

test('a log of 20,000 events is streamed whole in constant memory', { timeout: 120_000 }, async () => {
  const memory = watchMemory();
  const response = await open(`/sessions/${id}/events/stream`);
  let seen = 0;
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    rest += decoder.decode(chunk, { stream: true });
    const frames = rest.split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) if (frame.startsWith('id: ')) assert.equal(Number(/^id: (\d+)/.exec(frame)?.[1]), ++seen);
    memory.look(seen / count);
    if (seen === count) break;
  }
  assert.equal(seen, count);
  memory.assertFlat();
});

test('the state of a log of 20,000 events is sent whole in constant memory', { timeout: 120_000 }, async () => {
  const memory = watchMemory();
  const response = await open(`/sessions/${id}`);
  let entries = 0;
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    entries += Buffer.from(chunk).toString('latin1').split('"seq":').length - 1;
    memory.look(entries / count);
  }
  assert.ok(bytes > 20_000_000);
  // A marker may be cut in two by a chunk's edge.
  assert.ok(entries > count * 0.99 && entries <= count, `${entries} entries`);
  memory.assertFlat();
});

async function open(path: string): Promise<Response> {
  const response = await fetch(`${await app.listen()}${client.base}${path}`, { headers: { authorization: `Bearer ${app.apiKey}` } });
  assert.equal(response.status, 200);
  return response;
}

/** How much live memory grew, looked at twenty times on the way; each time what is only waiting to be collected goes first. */
function watchMemory(): { look(share: number): void; assertFlat(): void } {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  const used = () => {
    collect();
    // Buffers are freed beside the program; the next collection begins when that is done.
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = used();
  const grownMiB: number[] = [];
  return {
    look(share) {
      if (share * 20 >= grownMiB.length + 1) grownMiB.push(Math.round((used() - before) / 2 ** 20));
    },
    assertFlat() {
      assert.ok(grownMiB.length >= 19, `looked ${grownMiB.length} times`);
      assert.ok(Math.max(...grownMiB) < mostMiB, `memory grew by ${grownMiB.join(', ')} MiB`);
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
