import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { credentialReader } from '../../../src/accounts/credential-for.ts';
import { Directory } from '../../../src/accounts/directory.ts';
import { storeCredential } from '../../../src/accounts/model-credentials.ts';
import { createOrganization } from '../../../src/accounts/organizations.ts';
import { rotateSecretKey } from '../../../src/accounts/rotate-secret-key.ts';
import { createSecretBox } from '../../../src/accounts/secret-box.ts';
import { checkSecretKey } from '../../../src/accounts/secret-key.ts';
import { SigningKeys } from '../../../src/accounts/signing-keys.ts';
import { deleteExpiredRows } from '../../../src/start/expired-rows.ts';
import { openTestDatabase } from '../../support/engine.ts';

const database = await openTestDatabase();
after(() => database.close());
const at = new Date();
const first = createSecretBox(Buffer.alloc(32, 1));
const second = createSecretBox(Buffer.alloc(32, 2));
const origin = 'the key given';

test('after a rotation everything opens with the new key and nothing with the old one', async () => {
  await checkSecretKey(database, { box: first, origin });
  await assert.rejects(checkSecretKey(database, { box: second, origin }), /PARLEY_SECRET_KEY/);
  const { id: orgId } = await createOrganization(database.db, { slug: 'acme', name: 'Acme', at });
  await database.db.transaction().execute((db) => storeCredential(db, { orgId, at }, first, { name: 'openai', secret: 'sk-0123456789ab' }));
  const { kid } = await new SigningKeys(database, first).current();

  assert.deepEqual(await rotateSecretKey(database, first, second), { resealed: 1 });
  await checkSecretKey(database, { box: second, origin });
  await assert.rejects(checkSecretKey(database, { box: first, origin }), /PARLEY_SECRET_KEY/);
  assert.equal(await credentialReader(new Directory(database, 'proc_1'), second)(orgId, 'openai'), 'sk-0123456789ab');
  await assert.rejects(credentialReader(new Directory(database, 'proc_1'), first)(orgId, 'openai'));
  assert.equal((await new SigningKeys(database, second).current()).kid, kid);
  await assert.rejects(rotateSecretKey(database, first, second), 'the old key opens nothing any more');
});

test('what has expired is swept away, in batches, and nothing else', async () => {
  const old = new Date(Date.now() - 25 * 3_600_000);
  const rows = Array.from({ length: 7 }, (_, index) => ({ org_id: 1, key: `old ${index}`, fingerprint: 'x', created_at: old }));
  await database.db
    .insertInto('idempotency_keys')
    .values([
      ...rows,
      { org_id: 1, key: 'new', fingerprint: 'x', created_at: at },
      { org_id: 1, key: 'retry\nold', fingerprint: 'x', created_at: new Date(Date.now() - 11 * 60_000) },
    ])
    .execute();
  await deleteExpiredRows(database.db, { batch: 3 });
  assert.deepEqual(await database.db.selectFrom('idempotency_keys').select('key').execute(), [{ key: 'new' }]);
});
