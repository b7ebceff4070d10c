// On PGlite: it executes statements in the order in which they are sent.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { readKey, takeKey, takeOverKey } from '../../../src/accounts/idempotency-keys.ts';
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
