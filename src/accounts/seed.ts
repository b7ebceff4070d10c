import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { prepareDataDirectory, replaceFile } from '../database/data-directory.ts';
import type { Database, Db } from '../database/database.ts';
import { locks } from '../database/locks.ts';
import { createAgent } from './agents.ts';
import { createApiKey, hashOfSecret, newApiKeySecret } from './api-keys.ts';
import { completeReleaseConfig } from './complete-release-config.ts';
import { invite } from './invitations.ts';
import { storeOperatorKey } from './operator-key.ts';
import { createOrganization } from './organizations.ts';
import { activateRelease, createRelease } from './releases.ts';
import { allScopes } from './scopes.ts';

/** The keys and the token are there only if this start found the database empty. */
export interface SeedResult {
  /** In plaintext. */
  apiKey?: string;
  operatorKey?: string;
  /** Lets the first owner join, once, at `/dashboard/join?token=...`. */
  ownerToken?: string;
  /** For a person who set PARLEY_API_KEY after the first start, when it has no effect. */
  warning?: string;
}

const instructions =
  'You are the demo assistant of this Parley installation. Answer briefly and plainly. Use your tools when they help, and say what you did.';

/** Fills an empty database with an org, an agent that answers and the first keys. Safe when several processes start at once. */
export async function seedInstallation(database: Database, config: Config, clock: Clock): Promise<SeedResult> {
  return database.db.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${locks.firstStart})`.execute(transaction);
    const existing = await transaction.selectFrom('organizations').select('id').limit(1).executeTakeFirst();
    if (existing !== undefined) {
      if (config.PARLEY_OPERATOR_KEY !== undefined) await storeOperatorKey(transaction, config.PARLEY_OPERATOR_KEY);
      return (await isUnknownKey(transaction, config.PARLEY_API_KEY)) ? { warning: unknownKeyWarning } : {};
    }
    const apiKey = config.PARLEY_API_KEY ?? newApiKeySecret();
    const operatorKey = config.PARLEY_OPERATOR_KEY ?? `svc_operator_${randomBytes(32).toString('base64url')}`;
    const ownerToken = await createDemo(transaction, apiKey, clock.now());
    await storeOperatorKey(transaction, operatorKey);
    // Before the commit: a crash must not leave keys in the database that nobody knows.
    await saveGeneratedKeys(config, { api_key: apiKey, operator_key: operatorKey });
    return { apiKey, operatorKey, ownerToken };
  });
}

const unknownKeyWarning =
  'PARLEY_API_KEY is no key of this database. It fixes the value of the first key of an empty one; later ones are made in the dashboard or with POST /api/api_keys.';

async function isUnknownKey(transaction: Db, secret: string | undefined): Promise<boolean> {
  if (secret === undefined) return false;
  return (await transaction.selectFrom('api_keys').select('id').where('hash', '=', hashOfSecret(secret)).executeTakeFirst()) === undefined;
}

/** Creates the demo organization. Returns the token with which its first owner joins. */
async function createDemo(transaction: Db, apiKey: string, at: Date): Promise<string> {
  const organization = await createOrganization(transaction, { slug: 'demo', name: 'Demo', at });
  const actor = { orgId: organization.id, at };
  const agent = await createAgent(transaction, actor, {
    slug: 'assistant',
    name: 'Assistant',
    description: 'Answers offline',
    isDefault: true,
  });
  const config = completeReleaseConfig({ instructions });
  // The offline model needs no credential and no connection.
  const release = await createRelease(transaction, actor, agent.id, config, { state: 'materialized', pinnedTools: [] });
  await activateRelease(transaction, actor, agent.id, release?.version ?? 1, { retry: false });
  await createApiKey(transaction, actor, { name: 'First key', scopes: allScopes, managesOwners: true, secret: apiKey });
  return (await invite(transaction, actor, { email: undefined, role: 'owner', highestRole: 'owner' })).token;
}

/** Saves the keys that the operator did not choose, because each is printed only once. */
async function saveGeneratedKeys(config: Config, keys: { api_key: string; operator_key: string }): Promise<void> {
  const generated = {
    ...(config.PARLEY_API_KEY === undefined ? { api_key: keys.api_key } : {}),
    ...(config.PARLEY_OPERATOR_KEY === undefined ? { operator_key: keys.operator_key } : {}),
  };
  if (Object.keys(generated).length === 0) return;
  await prepareDataDirectory(config.PARLEY_DATA_DIR);
  const text = `${JSON.stringify(generated, null, 2)}\n`;
  await replaceFile(join(config.PARLEY_DATA_DIR, 'credentials.json'), (draft) => writeFile(draft, text));
}
