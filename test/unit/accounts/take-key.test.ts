// On PGlite: it executes statements in the order in which they are sent.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import {
  giveBackKey,
  keepResponse,
  keepTurnUnder,
  readKey,
  shareKey,
  takeKey,
  takeOverKey,
} from '../../../src/accounts/idempotency-keys.ts';
import { openTestDatabase } from '../../support/engine.ts';

const database = await openTestDatabase();
after(() => database.close());
const { db } = database;

test('a key that was given back just when it was found taken is taken, not only thought to be', async (t) => {
  const own = { orgId: 1, key: 'key', fingerprint: 'same' };
  assert.equal((await takeKey(db, own)).earlier, undefined);
  const { selectFrom } = db;
  const found = t.mock.method(
    db,
    'selectFrom',
    (...from: Parameters<typeof selectFrom>) => {
      // The embedded engine carries out one statement after another: this one comes before the read.
      void db.deleteFrom('idempotency_keys').execute();
      return selectFrom.apply(db, from);
    },
    { times: 1 },
  );
  assert.equal((await takeKey(db, own)).earlier, undefined);
  assert.equal(found.mock.callCount(), 1);
  assert.equal((await readKey(db, own))?.fingerprint, 'same');
});

test('what its holder has left is gone on with by one, and what is still held by none', async () => {
  const left = { orgId: 1, key: 'left', fingerprint: 'a' };
  const held = { orgId: 1, key: 'held', fingerprint: 'a' };
  await takeKey(db, left, { holdMs: -1 });
  await takeKey(db, held, { holdMs: 60_000 });
  const taken = await Promise.all([1, 2, 3].map(() => takeOverKey(db, left, 60_000)));
  assert.equal(taken.filter((at) => at !== undefined).length, 1);
  assert.equal(await takeOverKey(db, held, 60_000), undefined);
});

test('who lost a key to another keeps nothing under it any more, and neither shares it nor gives it back', async () => {
  const own = { orgId: 1, key: 'lost', fingerprint: 'a' };
  const { takenAt } = await takeKey(db, own, { holdMs: -1 });
  await sleep(5);
  const takenOverAt = await takeOverKey(db, own, 60_000);
  assert.ok(takenOverAt !== undefined && takenOverAt > takenAt);
  const late = { ...own, takenAt };
  await keepResponse(db, late, 'late');
  await giveBackKey(db, late);
  assert.equal(await shareKey(db, late), false);
  assert.equal((await readKey(db, own))?.response, null);
  assert.equal(await shareKey(db, { ...own, takenAt: takenOverAt }), true);
});

test('of a key that two organizations use each has its own', async () => {
  const ours = { orgId: 1, key: 'both', fingerprint: 'a' };
  const theirs = { ...ours, orgId: 2 };
  for (const own of [ours, theirs]) assert.equal((await takeKey(db, own)).earlier, undefined);
  await keepResponse(db, ours, 'ours');
  assert.deepEqual([(await readKey(db, ours))?.response, (await readKey(db, theirs))?.response], ['ours', null]);
  await giveBackKey(db, ours);
  assert.deepEqual([await readKey(db, ours), (await readKey(db, theirs))?.fingerprint], [undefined, 'a']);
});

test('what is kept of a turn is found for as long as is asked for since it was kept', async () => {
  const own = { orgId: 1, key: 'kept', fingerprint: 'a' };
  await takeKey(db, own);
  await sql`update idempotency_keys set created_at = now() - interval '20 minutes' where key = 'kept'`.execute(db);
  const lately = async () => (await readKey(db, own, 10 * 60_000))?.turnId;
  assert.equal((await readKey(db, own))?.turnId, null);
  assert.equal(await lately(), undefined);
  await keepTurnUnder(db, own, { turnId: 'turn_kept', response: 'sealed' });
  assert.equal(await lately(), 'turn_kept');
});
