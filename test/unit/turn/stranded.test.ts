// A database that takes no writes, or is not there: whoever waits for a turn is told, and the turn goes on later.
// On PGlite: the test makes this engine refuse writes.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startPGlite } from '../../../src/database/pglite.ts';
import { Feed } from '../../../src/session/feed.ts';
import { follow } from '../../../src/session/follow.ts';
import { SessionLog } from '../../../src/session/log.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { holdLeases } from '../../../src/turn/leases.ts';
import { Runner } from '../../../src/turn/runner.ts';
import { createDatabase, engine } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

/** Why no write is taken at the moment, and how many were not. */
let refusal: Error | undefined;
let refused = 0;

test('who waits for a turn that cannot go on is told why: at once by a database that takes no writes, after a while by one that is away', {
  skip: engine === 'postgres',
}, async (t) => {
  const prepared = await createDatabase();
  const checkSpace = () => {
    if (refusal === undefined) return;
    refused += 1;
    throw refusal;
  };
  const database = await startPGlite(join(prepared.settings.PARLEY_DATA_DIR, 'db'), { checkSpace });
  after(async () => {
    await database.close();
    await prepared.remove();
  });
  const log = new SessionLog(database, 'process', 500, false);
  const feed = new Feed();
  const nothing = () => {};
  const runner = new Runner({
    log,
    feed,
    logger: createLogger('silent'),
    settingFor: async () => undefined,
    mayRun: async () => true,
    holdOn: async () => 'ours',
    onTurnTaken: nothing,
    onTurnLeft: nothing,
    onTurnPaused: nothing,
    onTurnEnded: nothing,
  });
  const onStranded = (reason: unknown) => feed.strandAll(reason, (sessionId) => sessionId === 'running');
  const written: string[] = [];
  const leases = await holdLeases(database, runner, {
    holderName: () => log.holderName.current(),
    leaseMs: 500,
    logger: createLogger('warn', { write: (line) => written.push(JSON.parse(line).msg) }),
    onBeat: nothing,
    onStranded,
    patienceMs: 1_000,
  });
  t.after(() => leases.release());

  /** How many writes were refused before the watcher was told, and how long that took. */
  const patienceWith = async (code: string) => {
    const waiting = feed.subscribe('waiting', false);
    const running = feed.subscribe('running', false);
    refused = 0;
    const begun = performance.now();
    refusal = Object.assign(new Error(`refused with ${code}`), { code });
    await assert.rejects(
      async () => {
        for await (const _updates of follow(log, waiting, 0, true)) assert.fail('nothing was written');
      },
      (error) => error === refusal,
    );
    refusal = undefined;
    assert.equal(running.stranded, undefined, 'a turn that runs is waited for');
    waiting.close();
    running.close();
    return { refused, milliseconds: performance.now() - begun };
  };
  // The next beats may come while the watcher still reads the log.
  assert.ok((await patienceWith('53100')).refused < 4);
  assert.ok((await patienceWith('25006')).refused < 4);
  assert.ok((await patienceWith('ECONNREFUSED')).milliseconds > 500);
  await until(async () => written.at(-1) === 'the database takes writes again');
  assert.equal(written.filter((line) => line === 'could not renew leases').length, 3, 'one line for each cause');
});
