import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose';
import type { KyselyPlugin } from 'kysely';
import { type Agent, createAgent } from '../../../src/accounts/agents.ts';
import { Directory } from '../../../src/accounts/directory.ts';
import { createOrganization } from '../../../src/accounts/organizations.ts';
import type { Organization } from '../../../src/accounts/principal.ts';
import { createSecretBox } from '../../../src/accounts/secret-box.ts';
import { SessionTokens } from '../../../src/accounts/session-tokens.ts';
import { SigningKeys } from '../../../src/accounts/signing-keys.ts';
import type { Database } from '../../../src/database/database.ts';
import { openTestDatabase } from '../../support/engine.ts';

let database: Database;
let directory: Directory;
let keys: SigningKeys;
let tokens: SessionTokens;
let organization: Organization;
let agent: Agent;
let now = new Date('2026-03-01T12:00:00Z');
const box = createSecretBox(Buffer.alloc(32, 7));
const clock = { now: () => now };

before(async () => {
  database = await openTestDatabase();
  directory = new Directory(database, 'proc_1');
  organization = await createOrganization(database.db, { slug: 'acme', name: 'Acme', at: now });
  const actor = { orgId: organization.id, at: now };
  agent = await directory.change(organization.id, (db) =>
    createAgent(db, actor, { slug: 'helper', name: 'Helper', description: '', isDefault: false }),
  );
  keys = new SigningKeys(database, box);
  tokens = new SessionTokens(keys, directory, clock, 'parley');
});
after(() => database.close());

test('a token carries the claims of the contract and stands for its end user', async () => {
  const { token, expiresAt } = await tokens.mint(organization, agent, { endUserId: 'user_1', agentInstanceId: 'desk', ttlSeconds: 900 });
  const claims = decodeJwt(token);
  assert.deepEqual(
    [claims.org_id, claims.agent_id, claims.agent_slug, claims.sub, claims.exp],
    [organization.id, agent.id, 'helper', 'user_1', now.getTime() / 1_000 + 900],
  );
  for (const claim of ['scope', 'iss', 'aud', 'iat', 'jti']) assert.ok(claims[claim] !== undefined, claim);
  assert.equal(decodeProtectedHeader(token).alg, 'EdDSA');
  const principal = await tokens.verify(token);
  assert.equal(principal?.endUserId, 'user_1');
  assert.equal(principal?.agentInstanceId, 'desk');
  assert.deepEqual(principal?.expiresAt, expiresAt);
});

test('without an end user the token has no subject', async () => {
  const { token } = await tokens.mint(organization, agent, { ttlSeconds: 60 });
  assert.equal(decodeJwt(token).sub, undefined);
  assert.equal((await tokens.verify(token))?.endUserId, undefined);
});

test('a token ends at the second that it names, also when it was seen before', async () => {
  const { token } = await tokens.mint(organization, agent, { ttlSeconds: 60 });
  const start = now;
  now = new Date(start.getTime() + 59_000);
  assert.ok(await tokens.verify(token));
  now = new Date(start.getTime() + 60_000);
  assert.equal(await tokens.verify(token), undefined);
  const elsewhere = new SessionTokens(keys, directory, clock, 'parley');
  assert.equal(await elsewhere.verify(token), undefined, 'nor where it was never seen');
  now = start;
});

test('a token of another algorithm or another key, or for something else, is nobody', async () => {
  const { token } = await tokens.mint(organization, agent, { endUserId: 'user_1', ttlSeconds: 900 });
  const claims = decodeJwt(token);
  const { kid } = decodeProtectedHeader(token);
  const jwk = (await keys.jwks()).keys[0];
  const { privateKey } = await keys.current();
  const signed = (changes: object) =>
    new SignJWT({ ...claims, ...changes }).setProtectedHeader({ alg: 'EdDSA', kid: kid ?? '' }).sign(privateKey);
  assert.ok(await tokens.verify(await signed({ jti: 'another' })));
  assert.ok(await tokens.verify(await signed({ iat: Number(claims.iat) + 60 })), 'of a process whose clock is a minute ahead');
  const forged = [
    await signed({ iss: 'elsewhere' }),
    await signed({ aud: 'parley:operator' }),
    await signed({ scope: 'agent:manage' }),
    await signed({ exp: Number(claims.iat) + 7_201 }),
    await signed({ iat: Number(claims.iat) + 3_601, exp: Number(claims.iat) + 3_700 }),
    new UnsecuredJWT(claims).encode(),
    await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: kid ?? '' }).sign(Buffer.from(String(jwk?.x), 'base64url')),
    await new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA', kid: kid ?? '' }).sign((await generateKeyPair('EdDSA')).privateKey),
    await new SignJWT(claims)
      .setProtectedHeader({ alg: 'EdDSA', jwk: await exportJWK((await generateKeyPair('EdDSA', { extractable: true })).publicKey) })
      .sign((await generateKeyPair('EdDSA')).privateKey),
    token.slice(0, -20) + 'A'.repeat(20),
    'not.a.token',
    '',
  ];
  for (const candidate of forged) assert.equal(await tokens.verify(candidate), undefined, candidate);
});

test('after a rotation new tokens have a new key, and those before it still hold', async () => {
  const { token: earlier } = await tokens.mint(organization, agent, { ttlSeconds: 900 });
  const elsewhere = new SessionTokens(new SigningKeys(database, box), directory, clock, 'parley');
  assert.ok(await elsewhere.verify(earlier));
  await rotate();
  const { token: later } = await tokens.mint(organization, agent, { ttlSeconds: 900 });
  assert.notEqual(decodeProtectedHeader(later).kid, decodeProtectedHeader(earlier).kid);
  assert.ok(await tokens.verify(earlier));
  assert.ok(await elsewhere.verify(later), 'at once, also by a process that read the keys just before the rotation');
  const fresh = new SessionTokens(new SigningKeys(database, box), directory, clock, 'parley');
  assert.ok(await fresh.verify(earlier));
  assert.ok(await fresh.verify(later));
  const published = (await keys.jwks()).keys;
  assert.equal(published.length, 2);
  for (const key of published) assert.equal(key.d, undefined, 'a private key is never published');
});

test('a token of a new key holds at once, also where the keys were being read while they were rotated', async () => {
  const read = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const late: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      read.resolve();
      await goOn.promise;
      return result;
    },
  };
  const slow = new SigningKeys({ ...database, db: database.db.withPlugin(late) }, box);
  const reading = slow.jwks();
  await read.promise;
  await rotate();
  const { token } = await tokens.mint(organization, agent, { ttlSeconds: 900 });
  const verifying = new SessionTokens(slow, directory, clock, 'parley').verify(token);
  // It asks for the keys after a timer of its own.
  await sleep(20);
  goOn.resolve();
  await reading;
  assert.ok(await verifying);
});

test('a retired key verifies for three hours, longer than any token lives, and no rotation prolongs that', async () => {
  const { token } = await tokens.mint(organization, agent, { ttlSeconds: 900 });
  const { kid } = decodeProtectedHeader(token);
  const replacement = await rotate();
  const stored = async (): Promise<{ kid: string; retired_at: string | null }[]> => {
    const row = await database.db.selectFrom('installation').select('value').where('key', '=', 'signing_keys').executeTakeFirstOrThrow();
    return Object(row.value).keys;
  };
  const verifyAfter = async (minutes: number) => {
    const retiredAt = new Date(Date.now() - minutes * 60_000).toISOString();
    const value = { keys: (await stored()).map((key) => (key.kid === kid ? { ...key, retired_at: retiredAt } : key)) };
    await database.db
      .updateTable('installation')
      .set({ value: JSON.stringify(value) })
      .where('key', '=', 'signing_keys')
      .execute();
    const fresh = new SigningKeys(database, box);
    const verified = await new SessionTokens(fresh, directory, clock, 'parley').verify(token);
    return [verified !== undefined, (await fresh.jwks()).keys.some((key) => key.kid === kid)];
  };
  assert.deepEqual(await verifyAfter(179), [true, true]);
  const { retired_at: retiredAt } = (await stored()).find((key) => key.kid === kid) ?? {};
  await rotate();
  assert.equal((await stored()).find((key) => key.kid === kid)?.retired_at, retiredAt);
  assert.deepEqual(await verifyAfter(181), [false, false]);
  await rotate();
  const kept = (await stored()).map((key) => key.kid);
  assert.deepEqual([kept.includes(String(kid)), kept.includes(replacement)], [false, true]);
});

test('a token of a key that retired three hours ago is nobody, also where it or its key was seen before', async (t) => {
  const mint = async () => (await tokens.mint(organization, agent, { ttlSeconds: 900 })).token;
  const [seen, unseen] = [await mint(), await mint()];
  const verifier = async () => {
    const verifying = new SessionTokens(new SigningKeys(database, box), directory, clock, 'parley');
    assert.ok(await verifying.verify(seen));
    return verifying;
  };
  const before = await verifier();
  await rotate();
  const after = await verifier();

  const [time, uptime] = [Date.now(), performance.now()];
  t.mock.method(performance, 'now', () => uptime + 61_000);
  const date = t.mock.method(Date, 'now', () => time + 179 * 60_000);
  for (const verifying of [before, after]) assert.ok(await verifying.verify(seen));
  date.mock.mockImplementation(() => time + 181 * 60_000);
  assert.equal(await after.verify(seen), undefined, 'its signature was checked');
  assert.equal(await after.verify(unseen), undefined, 'its key was read');
  assert.equal(await before.verify(seen), undefined, 'its key was read before the rotation');
});

async function rotate(): Promise<string> {
  const kid = await database.db.transaction().execute((transaction) => keys.rotate(transaction));
  await keys.read();
  return kid;
}
