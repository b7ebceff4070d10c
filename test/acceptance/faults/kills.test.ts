// `kill -9` of a server that clients of every kind are talking to, again and again, also before it is up.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chances, isLong, seed } from '../../support/chance.ts';
import { engine } from '../../support/engine.ts';
import { serveKillPoints } from '../../support/kill-points.ts';
import { mixedLoadSettings, startMixedLoad, wireOf } from '../../support/mixed-load.ts';
import { startServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

/** A hundred in all: the embedded engine takes twice as long to start. */
const kills = isLong ? 500 : engine === 'pglite' ? 10 : 90;
const points = await serveKillPoints();
after(() => points.close());

test(`${kills} kills under mixed load lose nothing that was acknowledged, repeat nothing and leave no turn without an end`, {
  timeout: 60_000 + kills * 8_000,
}, async (t) => {
  t.diagnostic(`seed ${seed}`);
  const chance = chances(seed);
  const receiver = await startReceiver(t);
  const server = await startServer(t, { settings: mixedLoadSettings });
  const load = await startMixedLoad({ wire: () => wireOf(server), points, receiver });
  t.after(() => load.abandon());
  let before = 0;
  for (let kill = 1; kill <= kills; kill += 1) {
    // Two in five come while it starts; the others strike a server at work.
    const isEarly = chance() < 0.4;
    const delay = chance() * (isEarly ? 600 : 200);
    if (!isEarly) {
      await untilAnswered(load.answered, before + 5);
      before = load.answered();
    }
    await sleep(delay);
    await server.kill();
    server.launch();
  }
  await server.kill();
  await server.start();
  await load.stop();
  assert.ok(load.answered() > kills, `only ${load.answered()} requests were answered`);
  await load.check();
  t.diagnostic(`${load.answered()} requests were answered`);
});

/** A kill that nobody felt would show nothing. */
async function untilAnswered(answered: () => number, count: number): Promise<void> {
  await until(async () => answered() >= count, 30_000, 'the server answers');
}
