import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import { sql } from 'kysely';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { holdLeases, holdOn } from '../../../src/turn/leases.ts';
import { startApp } from '../../support/app.ts';
import { until } from '../../support/until.ts';

// Its own leases are not looked at while the test runs.
const app = await startApp({ after }, { settings: { PARLEY_LEASE_MS: '60000' } });
const { database, runner } = app.context;

type LeaseParts = Parameters<typeof holdLeases>[2];

/** The leases of a process on this database. They are given up however the test ends: their timer would keep the test process running. */
async function hold(t: TestContext, engine: 'pglite' | 'postgres', parts: Pick<LeaseParts, 'holderName'> & Partial<LeaseParts>) {
  const others = { leaseMs: 400, logger: createLogger('silent'), onBeat() {}, onStranded() {} };
  const leases = await holdLeases({ ...database, engine }, runner, { ...others, ...parts });
  t.after(() => leases.release());
  return leases;
}

test('a process that lets go of its turns takes none of them up again, also where it was about to look for some', {
  timeout: 20_000,
}, async (t) => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/say hello' });
  // As of a turn that ran here and is cut off.
  await database.db
    .updateTable('turns')
    .set({ state: 'running', process_id: 'proc_leaving', lease_until: new Date(Date.now() + 60_000) })
    .execute();
  const begin = t.mock.method(runner, 'begin', () => {});
  const looks = Promise.withResolvers<() => void>();
  let isFirst = true;
  const leases = await hold(t, 'postgres', {
    // The first to ask is the look: it is held up until the process lets go.
    holderName: () => {
      const name = Promise.withResolvers<string>();
      if (isFirst) looks.resolve(() => name.resolve('proc_leaving'));
      else name.resolve('proc_leaving');
      isFirst = false;
      return name.promise;
    },
  });
  const goOn = await looks.promise;
  const released = leases.release();
  goOn();
  await released;
  await database.ping();
  assert.equal(begin.mock.callCount(), 0);
  const { lease_until: leaseUntil } = await database.db.selectFrom('turns').select('lease_until').executeTakeFirstOrThrow();
  assert.ok(Number(leaseUntil) <= Date.now());
});

test('a turn is not begun under a name with which a write may still arrive', { timeout: 20_000 }, async (t) => {
  const { body } = await app.request('POST', '/v1/sessions', {});
  await app.request('POST', `/v1/sessions/${body.id}/messages`, { text: '/say hello' });
  await sql`update turns set state = 'running', process_id = 'proc_cut', lease_until = now() where session_id = ${body.id}`.execute(
    database.db,
  );
  let asked = 0;
  const begun = Promise.withResolvers<number>();
  t.mock.method(runner, 'begin', () => begun.resolve(asked));
  const leases = await hold(t, 'postgres', {
    // The answer to a write is lost while the turn is being claimed.
    holderName: async () => {
      asked += 1;
      return asked === 1 ? 'proc_cut' : 'proc_cut.1';
    },
  });
  assert.ok((await begun.promise) > 2, 'it was begun by the look that claimed it under the old name');
  await leases.release();
  const { process_id: holder } = await database.db
    .selectFrom('turns')
    .select('process_id')
    .where('session_id', '=', body.id)
    .executeTakeFirstOrThrow();
  assert.equal(holder, 'proc_cut.1');
  await sql`update turns set state = 'ended', process_id = null, lease_until = null where session_id = ${body.id}`.execute(database.db);
});

test('a start on the embedded database takes up at once what the last process left, however long its lease', async (t) => {
  const { body } = await app.request('POST', '/v1/sessions', {});
  await app.request('POST', `/v1/sessions/${body.id}/messages`, { text: '/say hello' });
  await sql`update turns set state = 'running', process_id = 'proc_before', lease_until = now() + interval '1 hour'
    where session_id = ${body.id}`.execute(database.db);
  const begin = t.mock.method(runner, 'begin', () => {});
  const leases = await hold(t, 'pglite', {
    holderName: async () => 'proc_started',
    leaseMs: 60_000,
  });
  const [begun] = begin.mock.calls.filter(({ arguments: [turn] }) => turn?.session === body.id);
  assert.deepEqual(begun?.arguments.slice(1), [[], { recovered: true }]);
  await leases.release();
  await sql`update turns set state = 'ended', process_id = null, lease_until = null where session_id = ${body.id}`.execute(database.db);
});

test('it takes up all that was left, however many', async (t) => {
  const left = 250;
  const { body } = await app.request('POST', '/v1/sessions', {});
  await app.request('POST', `/v1/sessions/${body.id}/messages`, { text: '/say hello' });
  await sql`insert into sessions (id, org_id, agent_id, release_version, surface, instance_key, current_agent)
    select 'ses_left_' || n, org_id, agent_id, release_version, surface, 'left', current_agent
    from sessions, generate_series(1, ${left}::integer) n where id = ${body.id}`.execute(database.db);
  await sql`insert into turns (id, org_id, agent_id, session_id, state, input, process_id, lease_until)
    select 'turn_left_' || n, org_id, agent_id, 'ses_left_' || n, 'running', input, 'proc_before', now() + interval '1 hour'
    from turns, generate_series(1, ${left}::integer) n where session_id = ${body.id}`.execute(database.db);
  const begin = t.mock.method(runner, 'begin', () => {});
  const leases = await hold(t, 'pglite', {
    holderName: async () => 'proc_started',
    leaseMs: 60_000,
  });
  const begun = begin.mock.calls.map(({ arguments: [turn] }) => turn?.turn).filter((id) => id?.startsWith('turn_left_'));
  assert.deepEqual([begun.length, new Set(begun).size], [left, left]);
  await leases.release();
  for (const table of ['turns', 'sessions']) await sql`delete from ${sql.table(table)} where id like '%_left_%'`.execute(database.db);
});

test('a turn that is stopped in this process ends at once, and not with the next look', { timeout: 10_000 }, async () => {
  await app.request('POST', '/v1/sessions', { session_id: 'heard' });
  const answer = app.request('POST', '/v1/sessions/heard/messages', { text: '/delay 60000\n/words 2' });
  await until(async () => runner.turnOf('heard') !== undefined);
  const interrupt = () => app.context.turns.interrupt(1, 'heard', 'interrupt');
  await interrupt();
  assert.equal((await answer).status, 200);
  await app.request('POST', '/v1/sessions/heard/messages', { text: '/tool bash {"command":"ls"}' });
  await interrupt();
  assert.equal(runner.running.size, 1, 'one that waits for an approval is taken up to end');
  await runner.idle();
});

test('a turn whose interrupt this process did not hear of ends with the next look', { timeout: 20_000 }, async (t) => {
  const quick = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
  await quick.request('POST', '/v1/sessions', { session_id: 'unheard' });
  const answer = quick.request('POST', '/v1/sessions/unheard/messages', { text: '/delay 60000\n/words 2' });
  const { db } = quick.context.database;
  await until(async () => (await db.updateTable('turns').set({ interrupted: true }).executeTakeFirst()).numUpdatedRows > 0n);
  assert.equal((await answer).status, 200);
});

test('a turn that ends while it is being taken over is not run again', { timeout: 20_000 }, async (t) => {
  const { db } = database;
  const { body } = await app.request('POST', '/v1/sessions', {});
  await app.request('POST', `/v1/sessions/${body.id}/messages`, { text: '/say hello' });
  // As the end does that another process has begun to write: it waits for the claim and comes right behind it.
  await sql`create function end_claimed() returns trigger language plpgsql as $$
    begin
      update turns set state = 'ended', process_id = null, lease_until = null where id = new.id;
      return null;
    end $$`.execute(db);
  await sql`create trigger end_claimed after update on turns for each row when (new.process_id = 'proc_claiming')
    execute function end_claimed()`.execute(db);
  await sql`update turns set state = 'running', process_id = 'proc_ending', lease_until = now() - interval '1 second'
    where session_id = ${body.id}`.execute(db);
  const begin = t.mock.method(runner, 'begin', () => {});
  const looked = Promise.withResolvers<void>();
  const leases = await hold(t, 'postgres', {
    holderName: async () => 'proc_claiming',
    onBeat: looked.resolve,
    onStranded: looked.reject,
  });
  await looked.promise;
  await leases.release();
  const { rows } = await sql<{ state: string }>`select state from turns where session_id = ${body.id}`.execute(db);
  assert.deepEqual([rows[0]?.state, begin.mock.callCount()], ['ended', 0]);
});

test('a process that drains takes up no turn of another: it would only cut it off', { timeout: 20_000 }, async (t) => {
  const quick = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
  const { turns, runner, database } = quick.context;
  for (const id of ['own', 'left']) await quick.request('POST', '/v1/sessions', { session_id: id });
  await quick.request('POST', '/v1/sessions/left/messages', { text: '/say hello' });
  const own = quick.request('POST', '/v1/sessions/own/messages', { text: '/delay 60000\n/words 2' });
  const turnOf = (session: string) =>
    database.db.selectFrom('turns').selectAll().where('session_id', '=', session).executeTakeFirstOrThrow();
  await until(async () => runner.turnOf('own') !== undefined);
  const renewals = async () => {
    const seen = new Set<number>();
    await until(async () => seen.add(Number((await turnOf('own')).lease_until)).size > 3);
  };
  turns.draining = true;
  // A look that began before may still claim.
  await renewals();
  await sql`update turns set state = 'running', process_id = 'proc_dead', lease_until = now() - interval '1 second', ended_at = null
    where session_id = 'left'`.execute(database.db);
  await renewals();
  assert.equal((await turnOf('left')).process_id, 'proc_dead');
  turns.draining = false;
  await until(async () => (await turnOf('left')).process_id !== 'proc_dead');
  await turns.interrupt(1, 'own', 'interrupt');
  await own;
});

test('a turn that runs here is not begun again when its lease ran out, and let go of when another process has it', {
  timeout: 20_000,
}, async (t) => {
  const { log, turns } = app.context;
  const start = async (session: string): Promise<string> => {
    await app.request('POST', '/v1/sessions', { session_id: session });
    const event = { type: 'user.message', text: '/delay 60000\n/words 2' };
    await app.request('POST', `/demo/assistant/v1/managed-agents/sessions/${session}/events`, event);
    return runner.turnOf(session) ?? assert.fail();
  };
  const [late, taken] = [await start('late'), await start('taken')];
  await sql`update turns set lease_until = now() - interval '1 second' where id = ${late}`.execute(database.db);
  const theirs = new Date(Date.now() + 3_600_000);
  await database.db.updateTable('turns').set({ process_id: 'proc_there', lease_until: theirs }).where('id', '=', taken).execute();
  // The beat that would have renewed the other did not come in time.
  t.mock.method(runner.running, 'keys', () => [taken].values());
  const begin = t.mock.method(runner, 'begin', () => {});
  const looked = Promise.withResolvers<void>();
  const leases = await hold(t, 'postgres', {
    holderName: () => log.holderName.current(),
    onBeat: looked.resolve,
    onStranded: looked.reject,
  });
  await looked.promise;
  await until(async () => !runner.running.has(taken));
  await leases.release();
  assert.ok(begin.mock.calls.every(({ arguments: [turn] }) => turn?.turn !== late));
  const row = await database.db.selectFrom('turns').select(['process_id', 'lease_until']).where('id', '=', taken).executeTakeFirstOrThrow();
  assert.deepEqual(row, { process_id: 'proc_there', lease_until: theirs });
  await turns.interrupt(1, 'late', 'interrupt');
  await runner.idle();
});

test('a turn is held by this process under any of its names, and by nobody while it is paused', async () => {
  const { body } = await app.request('POST', '/v1/sessions', {});
  await app.request('POST', `/v1/sessions/${body.id}/messages`, { text: '/say hello' });
  const { id } = await database.db.selectFrom('turns').select('id').where('session_id', '=', body.id).executeTakeFirstOrThrow();
  assert.equal(await holdOn(database, 'proc_a', id), 'ended');
  assert.equal(await holdOn(database, 'proc_a', 'turn_none'), 'ended');
  for (const [state, processId, hold] of [
    ['running', 'proc_a', 'ours'],
    ['running', 'proc_a.12', 'ours'],
    ['running', 'proc_ab', 'lost'],
    ['paused', null, 'lost'],
  ] as const) {
    await database.db.updateTable('turns').set({ state, process_id: processId }).where('id', '=', id).execute();
    assert.equal(await holdOn(database, 'proc_a', id), hold, `${state} ${processId}`);
  }
  await database.db.updateTable('turns').set({ state: 'ended', process_id: null }).where('id', '=', id).execute();
});
