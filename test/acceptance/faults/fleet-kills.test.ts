// Three processes on one PostgreSQL, one killed every moment, under load and watched from the others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chances, isLong, seed } from '../../support/chance.ts';
import { clientOf, type LogEntry } from '../../support/client.ts';
import { createDatabase, engine } from '../../support/engine.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';

const kills = isLong ? 60 : 4;
const sessions = 6;

test('processes killed at random lose nothing, repeat nothing and end every turn', {
  skip: engine === 'pglite' ? 'the embedded database takes one process' : false,
}, async (t) => {
  t.diagnostic(`seed ${seed}`);
  const chance = chances(seed);
  const database = await createDatabase();
  t.after(() => database.remove());
  const settings = { PARLEY_LEASE_MS: '1000', PARLEY_LOG_LEVEL: 'error', PARLEY_RATE_LIMIT_RPS: '0' };
  const servers: ServerProcess[] = [];
  for (let index = 0; index < 3; index += 1) servers.push(await startServer(t, { database, settings }));
  const any = () => clientOf(servers[Math.floor(chance() * servers.length)] ?? (servers[0] as ServerProcess));
  const ids = Array.from({ length: sessions }, (_, index) => `fleet-${index}`);
  for (const id of ids) await any().send('POST', '/v1/sessions', { session_id: id });

  const acknowledged = new Map(ids.map((id) => [id, new Set<string>()]));
  let isOver = false;
  const load = ids.map(async (id) => {
    for (let count = 1; !isOver; count += 1) {
      const text = `/delay 5\n/say ${id} ${count}`;
      const answer = await any()
        .send('POST', `/demo/assistant/v1/managed-agents/sessions/${id}/events`, { type: 'user.message', text })
        .catch(() => undefined);
      if (answer?.status === 202) acknowledged.get(id)?.add(text);
      await sleep(100);
    }
  });
  const watched = ids.map((id) => watch(any, id, () => isOver));

  for (let kill = 0; kill < kills; kill += 1) {
    await sleep(300 + chance() * 700);
    const victim = servers[Math.floor(chance() * servers.length)];
    await victim?.kill();
    await victim?.start();
  }
  isOver = true;
  await Promise.all(load);
  for (const [index, id] of ids.entries()) {
    const log = await settled(any, id);
    assert.deepEqual(
      log.map((entry) => entry.seq),
      log.map((_entry, position) => position + 1),
      `${id} has no gap and no duplicate`,
    );
    const messages = log.filter((entry) => entry.type === 'user.message').map((entry) => String(entry.text));
    for (const text of acknowledged.get(id) ?? []) assert.ok(messages.includes(text), `${id}: ${text} was acknowledged`);
    const ends = log.filter((entry) => entry.type === 'session.status_idle' || entry.type === 'session.error');
    assert.equal(ends.length, messages.length, `${id}: every turn ended once`);
    const seen = await watched[index];
    assert.deepEqual(
      seen?.map((entry) => entry.seq),
      seen?.map((_entry, position) => position + 1),
      `a watcher of ${id} missed nothing and saw nothing twice`,
    );
  }
});

/** Follows on whichever process lives, resuming after the last entry seen. */
async function watch(any: () => ReturnType<typeof clientOf>, id: string, isOver: () => boolean): Promise<LogEntry[]> {
  const seen: LogEntry[] = [];
  while (!isOver()) {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), 1_500);
    try {
      for await (const entry of any().follow('assistant', id, seen.at(-1)?.seq ?? 0, abort.signal)) seen.push(entry);
    } catch {
      await sleep(50);
    }
    clearTimeout(timer);
  }
  return seen;
}

async function settled(any: () => ReturnType<typeof clientOf>, id: string): Promise<LogEntry[]> {
  const until = Date.now() + 60_000;
  for (;;) {
    const { body } = await any().send('GET', `/demo/assistant/v1/managed-agents/sessions/${id}`);
    if (body.status === 'idle') return body.events as LogEntry[];
    if (Date.now() > until) throw new Error(`${id} did not come to rest: ${JSON.stringify((body.events as LogEntry[]).slice(-3))}`);
    await sleep(100);
  }
}
