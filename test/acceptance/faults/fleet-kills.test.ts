// Three processes on one PostgreSQL under mixed load, one killed every moment, watched from whichever lives.
// One engine: only PostgreSQL has this.
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chances, isLong, seed } from '../../support/chance.ts';
import { createDatabase, engine } from '../../support/engine.ts';
import { serveKillPoints } from '../../support/kill-points.ts';
import { mixedLoadSettings, startMixedLoad, wireOf } from '../../support/mixed-load.ts';
import { startServer } from '../../support/server-process.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const skip = engine === 'pglite' ? 'the embedded database takes one process' : false;
const kills = isLong ? 100 : 4;
const points = await serveKillPoints();
after(() => points.close());

test('processes killed at random lose nothing, repeat nothing and end every turn, and no watcher misses or repeats an entry', {
  skip,
  timeout: 90_000 + kills * 10_000,
}, async (t) => {
  t.diagnostic(`seed ${seed}`);
  const chance = chances(seed);
  const database = await createDatabase();
  t.after(() => database.remove());
  const receiver = await startReceiver(t);
  const start = () => startServer(t, { database, settings: { ...mixedLoadSettings, PARLEY_LEASE_MS: '1000' } });
  const servers = [await start(), await start(), await start()] as const;
  const any = () => servers[Math.floor(chance() * 3)] ?? servers[0];
  const load = await startMixedLoad({ wire: () => wireOf(any()), points, receiver });
  t.after(() => load.abandon());
  for (let kill = 0; kill < kills; kill += 1) {
    await sleep(200 + chance() * (isLong ? 3_000 : 800));
    const victim = any();
    await victim.kill();
    await sleep(chance() * 500);
    await victim.start();
  }
  await load.stop();
  await load.check();
  t.diagnostic(`${load.answered()} requests were answered`);
});
