// The way to PostgreSQL breaks in every manner under mixed load: answers lost after the commit, connections cut, the server gone.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { chances, isLong, seed } from '../../support/chance.ts';
import { startDatabaseProxy } from '../../support/database-proxy.ts';
import { createDatabase, engine } from '../../support/engine.ts';
import { serveKillPoints } from '../../support/kill-points.ts';
import { mixedLoadSettings, startMixedLoad, wireOf } from '../../support/mixed-load.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { startServer } from '../../support/server-process.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const skip = engine === 'postgres' ? false : 'the embedded database has no connection to lose';
const rounds = isLong ? 20 : 2;
const points = await serveKillPoints();
after(() => points.close());

test('a database that loses answers, connections and itself costs a 503, and neither a write nor a double effect', {
  skip,
  timeout: 60_000 + rounds * 60_000,
}, async (t) => {
  t.diagnostic(`seed ${seed}`);
  const chance = chances(seed);
  // What it acknowledged must survive its own crash, so that a loss would be ours.
  const postgres = await startPostgres({ synchronous_commit: 'on' });
  const database = await createDatabase(postgres.url);
  t.after(() => postgres.stop());
  const proxy = await startDatabaseProxy(t, database);
  const settings = { ...mixedLoadSettings, PARLEY_LOG_LEVEL: 'fatal' };
  const receiver = await startReceiver(t);
  const start = () => startServer(t, { database: proxy.database, settings });
  const servers = [await start(), await start()] as const;
  const load = await startMixedLoad({ wire: () => wireOf(chance() < 0.5 ? servers[0] : servers[1]), points, receiver });
  t.after(() => load.abandon());
  const goesOn = async (more: number) => {
    const before = load.answered();
    for (const until = Date.now() + 30_000; load.answered() < before + more; await sleep(5))
      if (Date.now() > until)
        throw new Error(`it does not heal: ${JSON.stringify([...load.refused])} ${servers.map((server) => server.output())}`);
  };

  await goesOn(20);
  for (let round = 0; round < rounds; round += 1) {
    // The commit succeeds, the answer is lost: of the log's writes and of the transactions around everything else.
    proxy.loses = (request) => (request.includes('apply-operations') && chance() < 0.2) || (/commit\0/.test(request) && chance() < 0.2);
    const lost = proxy.lost;
    await goesOn(20);
    while (proxy.lost === lost) await goesOn(5);
    proxy.loses = () => false;
    for (let cut = 0; cut < 4; cut += 1) {
      await sleep(chance() * 150);
      if (cut % 2 === 0) proxy.cutAll();
      else await terminateAll(database.settings.DATABASE_URL ?? '');
      await goesOn(5);
    }
    await postgres.restart(chance() * 1_500);
    await goesOn(10);
    // Nothing comes back, and nothing breaks either.
    proxy.hold();
    await sleep(isLong ? 15_000 : 1_000);
    proxy.release();
    await goesOn(10);
  }
  await load.stop();
  await load.check();
  for (const server of servers) assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
  // Without a database there is nothing to hand over to, and still a way to stop.
  await postgres.stop();
  for (const server of servers) {
    const { status, headers } = await fetch(`${server.url}/readyz`);
    assert.equal(status, 503);
    assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    assert.equal(await server.stop('SIGINT'), 0, server.output());
  }
  t.diagnostic(`${load.answered()} answered, refused: ${JSON.stringify([...load.refused])}, ${proxy.lost} answers lost after their commit`);
});

test('a write whose answer is lost is heard of all the same, and one that arrives late finds that the turn has gone on', {
  skip,
}, async (t) => {
  const database = await createDatabase();
  t.after(() => database.remove());
  const proxy = await startDatabaseProxy(t, database);
  const server = await startServer(t, { database: proxy.database, settings: { ...mixedLoadSettings, PARLEY_LOG_LEVEL: 'fatal' } });
  const wire = wireOf(server);
  const logOf = async (id: string): Promise<{ type: string; output?: string }[]> =>
    (await wire.get(`/demo/assistant/v1/managed-agents/sessions/${id}`)).body.events;

  await wire.post('/v1/sessions', { session_id: 'end' });
  proxy.loses = once((request) => request.includes('"turn-ended"'));
  const ended = await Promise.race([wire.post('/v1/sessions/end/messages', { text: '/say told' }), sleep(5_000)]);
  assert.deepEqual([ended?.status, ended?.body.text], [200, 'told'], 'the end was stored, and nobody would have been told');
  assert.equal(proxy.lost, 1);
  assert.equal((await logOf('end')).length, 4);

  await wire.post('/v1/sessions', { session_id: 'late', permission_mode: 'autonomous' });
  // It arrives while the turn, claimed again, is still speaking.
  const lateMs = 1_500;
  const stranded = new Promise<void>((resolve) => {
    const isFinish = once((request) => request.includes('"tool-finished"'));
    proxy.strands = (request) => {
      if (!isFinish(request)) return 0;
      resolve();
      return lateMs;
    };
  });
  const acted = wire.post('/v1/sessions/late/messages', { text: '/delay 200\n/tool bash {"command":"echo once"}' });
  await stranded;
  assert.equal((await acted).status, 200);
  const before = await logOf('late');
  await sleep(lateMs);
  assert.deepEqual(await logOf('late'), before, 'what came late changed nothing');
  assert.deepEqual(
    before.filter((entry) => entry.type === 'agent.tool_result').map((entry) => /outcome is unknown/.test(entry.output ?? '')),
    [true],
  );
});

/** True for the first that is wanted, and never again. */
function once(isWanted: (request: string) => boolean): (request: string) => boolean {
  let isDone = false;
  return (request) => {
    if (isDone || !isWanted(request)) return false;
    isDone = true;
    return true;
  };
}

/** As an administrator would, or a failover. */
async function terminateAll(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  );
  await client.end();
}
