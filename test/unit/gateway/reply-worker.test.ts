import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { setImmediate as nextRound } from 'node:timers/promises';
import { type KyselyPlugin, sql } from 'kysely';
import { systemClock } from '../../../src/clock.ts';
import type { Database, Db } from '../../../src/database/database.ts';
import { findAnsweredIn } from '../../../src/gateway/replies.ts';
import { ReplyWorker } from '../../../src/gateway/reply-worker.ts';
import { submitTarget } from '../../../src/gateway/seen.ts';
import { Feed } from '../../../src/session/feed.ts';
import { SessionLog } from '../../../src/session/log.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { openTestDatabase } from '../../support/engine.ts';

let database: Database;
before(async () => {
  database = await openTestDatabase();
});
after(() => database.close());
beforeEach(() => sql`delete from gateway_events`.execute(database.db));

function newWorker(plugin?: KyselyPlugin): ReplyWorker {
  const db = plugin === undefined ? database.db : database.db.withPlugin(plugin);
  const log = new SessionLog(database, 'proc_1', 5_000, false);
  const identity = { name: 'here', url: undefined };
  return new ReplyWorker({ database: { ...database, db }, log, clock: systemClock, logger: createLogger('silent'), identity });
}

/** Events whose turns are over. */
async function addAnswered(names: string[]): Promise<void> {
  for (const name of names) {
    const event = JSON.stringify({ id: `evt_${name}`, sender_id: 'ada', sender_type: 'human', event_type: 'message', hops: [] });
    await sql`insert into gateway_events (org_id, event_id, target, session_id, turn_id, event, state)
      values (1, ${`evt_${name}`}, ${submitTarget}, ${`ses_${name}`}, ${`turn_${name}`}, ${event}, 'admitted')`.execute(database.db);
  }
}

async function unanswered(...names: string[]): Promise<string[]> {
  const ids = names.map((name) => `evt_${name}`);
  const { rows } = await sql<{ event_id: string }>`
    select event_id from gateway_events where state = 'admitted' and event_id in (${sql.join(ids)}) order by event_id`.execute(database.db);
  return rows.map((row) => row.event_id);
}

async function rowsRead(transaction: Db): Promise<number> {
  const { rows } = await sql<{ count: string }>`
    select sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid)) as count
    from pg_class where relname like 'gateway_events%'`.execute(transaction);
  return Number(rows[0]?.count);
}

test('where a turn ends, the events of its session are answered, without reading those that wait in others', async () => {
  await addAnswered(['own', 'other']);
  await sql`insert into gateway_events (org_id, event_id, target, session_id, turn_id, event, state)
    select 1, 'evt_waiting_' || n, ${submitTarget}, 'ses_' || n, 'turn_' || n, '{}', 'admitted' from generate_series(1, 2000) n`.execute(
    database.db,
  );
  await sql`analyze gateway_events`.execute(database.db);
  const worker = newWorker();
  const subscription = new Feed().subscribe('ses_own', false);
  await worker.lookWhenEnded({ sessionId: 'ses_own', turnId: 'turn_own', after: 0, replay: false, subscription, kept: [] });
  await worker.stop();
  assert.deepEqual(await unanswered('other', 'own'), ['evt_other']);
  await database.db.transaction().execute(async (transaction) => {
    const before = await rowsRead(transaction);
    await findAnsweredIn(transaction, 'ses_other', 0);
    const read = (await rowsRead(transaction)) - before;
    assert.ok(read < 50, `${read} rows were read`);
  });
});

test('the longer a look for replies takes, the later the next one comes', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  let [begun, ended] = [0, 0];
  const slow: KyselyPlugin = {
    transformQuery({ node }) {
      begun += 1;
      return node;
    },
    async transformResult({ result }) {
      ended += 1;
      now += 50;
      return result;
    },
  };
  const worker = newWorker(slow);
  worker.start();
  t.mock.timers.tick(1_000);
  while (ended < 2) await nextRound();
  await nextRound();
  t.mock.timers.tick(1_999);
  assert.equal(begun, 2, 'one look, of two queries');
  t.mock.timers.tick(1);
  assert.equal(begun, 3, 'the next one');
  await worker.stop();
});
