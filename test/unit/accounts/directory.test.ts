import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { revokeApiKey } from '../../../src/accounts/api-keys.ts';
import { Directory } from '../../../src/accounts/directory.ts';
import { isOperatorKey } from '../../../src/accounts/operator-key.ts';
import type { ChangedOrg } from '../../../src/accounts/org-cache.ts';
import { allScopes } from '../../../src/accounts/scopes.ts';
import { seedInstallation } from '../../../src/accounts/seed.ts';
import { systemClock } from '../../../src/clock.ts';
import { loadConfig } from '../../../src/config.ts';
import type { Database } from '../../../src/database/database.ts';
import { openTestDatabase } from '../../support/engine.ts';

const directoryPath = mkdtempSync(join(tmpdir(), 'parley-'));
const config = loadConfig({ PARLEY_DATA_DIR: directoryPath });
let database: Database;

before(async () => {
  database = await openTestDatabase();
});
after(async () => {
  await database.close();
  rmSync(directoryPath, { recursive: true });
});

test('keys that cannot be kept are not made: the setting is named, and the next start is the first', async () => {
  const paths = [join(import.meta.filename, 'data'), ...(process.platform === 'linux' ? ['/proc/parley/data'] : [])];
  for (const path of paths)
    await assert.rejects(seedInstallation(database, loadConfig({ PARLEY_DATA_DIR: path }), systemClock), (error: Error) =>
      error.message.startsWith(`PARLEY_DATA_DIR: ${path} is not writable (`),
    );
});

test('the first start makes an org, an agent that answers and keys that are kept; the second changes nothing', async () => {
  const file = join(directoryPath, 'credentials.json');
  writeFileSync(file, '{"api_key": "of a start that was cut sh', { mode: 0o644 });
  const first = await seedInstallation(database, config, systemClock);
  assert.ok(first.ownerToken);
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { api_key: first.apiKey, operator_key: first.operatorKey });
  assert.equal(statSync(file).mode & 0o777, 0o600, 'another file, not the old one written over');
  assert.deepEqual(readdirSync(directoryPath), ['credentials.json'], 'and no draft of it is left');
  assert.deepEqual(await seedInstallation(database, config, systemClock), {});
  const later = async (key = '') =>
    seedInstallation(database, loadConfig({ PARLEY_DATA_DIR: directoryPath, PARLEY_API_KEY: key }), systemClock);
  assert.deepEqual(await later(first.apiKey), {});
  assert.match((await later('svc_live_set_after_the_first_start')).warning ?? '', /^PARLEY_API_KEY is no key of this database\./);

  const directory = new Directory(database, 'proc_1');
  const principal = await directory.keyBySecret(first.apiKey ?? '');
  assert.deepEqual([...(principal?.scopes ?? [])], [...allScopes]);
  const organization = await directory.organizationBySlug('demo');
  assert.equal(principal?.organization.id, organization?.id);
  const agent = await directory.agentBySlug(organization?.id ?? 0, 'assistant');
  assert.equal(agent?.id, organization?.defaultAgentId);
  const release = await directory.release(organization?.id ?? 0, agent?.id ?? 0, agent?.activeVersion ?? 0);
  assert.equal(release?.state, 'materialized');
  assert.deepEqual(release?.config.model, { provider: 'offline', name: 'demo', base_url: null, settings: {} });
  assert.equal(await directory.release(99, agent?.id ?? 0, 1), undefined);
  assert.equal(await isOperatorKey(database.db, first.operatorKey ?? ''), true);
  assert.equal(await isOperatorKey(database.db, `${first.operatorKey}x`), false);
});

test('a revoked key is refused at once here, and elsewhere once the change is heard of', async () => {
  const here = new Directory(database, 'proc_1');
  const elsewhere = new Directory(database, 'proc_2');
  const { api_key: secret } = JSON.parse(readFileSync(join(directoryPath, 'credentials.json'), 'utf8'));
  const principal = await here.keyBySecret(secret);
  assert.ok(principal);
  assert.ok(await elsewhere.keyBySecret(secret));
  const orgId = principal.organization.id;
  const heard: ChangedOrg[] = [];
  here.onChange((changed) => heard.push(changed));
  await here.change(orgId, (db) => revokeApiKey(db, { orgId, at: new Date() }, principal.keyId));
  assert.equal(await here.keyBySecret(secret), undefined);
  assert.deepEqual(heard, [orgId]);
  for (const changed of heard) elsewhere.invalidate(changed);
  assert.equal(await elsewhere.keyBySecret(secret), undefined);
  await here.close();
  const row = await database.db.selectFrom('api_keys').select('last_used_at').executeTakeFirstOrThrow();
  assert.ok(row.last_used_at !== null && Math.abs(Date.now() - row.last_used_at.getTime()) < 60_000);
});

test('what does not look like a key or a slug reaches no query', async () => {
  const directory = new Directory({ ...database, db: new Proxy(database.db, { get: () => assert.fail('queried') }) }, 'proc_1');
  assert.equal(await directory.keyBySecret('svc_live_short'), undefined);
  assert.equal(await directory.keyBySecret("svc_live_' or 1=1 -- aaaaaaaaaaaaa"), undefined);
  assert.equal(await directory.organizationBySlug('a\u0000b'), undefined);
});

test('a credential is looked up by itself, also one that is not there, and again after a change', async () => {
  const directory = new Directory(database, 'proc_1');
  const organization = await directory.organizationBySlug('demo');
  assert.ok(organization);
  const { id: orgId } = organization;
  const store = (names: string[]) =>
    database.db
      .insertInto('model_credentials')
      .values(names.map((name) => ({ org_id: orgId, name, ciphertext: `sealed ${name}`, last_four: '', updated_at: new Date() })))
      .execute();
  await store(['openai', 'crm']);
  assert.equal(await directory.sealedCredential(orgId, 'openai'), 'sealed openai');
  assert.equal(await directory.sealedCredential(orgId, 'erp'), undefined);
  await store(['erp']);
  assert.equal(await directory.sealedCredential(orgId, 'crm'), 'sealed crm', 'read now, not with the others');
  await database.db.deleteFrom('model_credentials').where('name', '=', 'openai').execute();
  assert.equal(await directory.sealedCredential(orgId, 'openai'), 'sealed openai', 'from memory');
  assert.equal(await directory.sealedCredential(orgId, 'erp'), undefined, 'its absence too');
  directory.invalidate(orgId);
  assert.equal(await directory.sealedCredential(orgId, 'erp'), 'sealed erp');
  await database.db.updateTable('model_credentials').set({ ciphertext: 'another' }).where('name', '=', 'crm').execute();
  assert.equal(await directory.sealedCredential(orgId, 'crm'), 'another', 'what one look brings is one credential');
});
