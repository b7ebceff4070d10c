import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CryptoKey, JWK } from 'jose';
import { sql } from 'kysely';
import type { Database, Db } from '../database/database.ts';
import { locks } from '../database/locks.ts';
import type { SecretBox } from './secret-box.ts';

interface StoredKey {
  kid: string;
  public: JWK;
  /** The private JWK, sealed. */
  sealed: string;
  created_at: string;
  /** From then on it only verifies, until the last token it signed has expired. */
  retired_at: string | null;
}

export interface SigningKey {
  kid: string;
  privateKey: CryptoKey;
}

const context = 'signing keys';
/** No token lives longer. */
export const longestLifeSeconds = 7_200;
/** By how much the clocks of processes may differ. */
export const clockDifferenceSeconds = 3_600;
const verifyAfterRetirementMs = (longestLifeSeconds + clockDifferenceSeconds) * 1_000;
/** How often requests that anybody can send may make a process read the keys. */
const readEveryMs = 1_000;
/** After which time the keys are read again: another process may have rotated them. */
const readAfterMs = 60_000;

/** The Ed25519 keys of session tokens. Every process reads them from the table `installation`, where they are stored encrypted. */
export class SigningKeys {
  private readonly database: Database;
  private readonly box: SecretBox;
  private signing: SigningKey | undefined;
  private verifyingKeys = new Map<string, { jwk: JWK; key: CryptoKey; retiredAt: string | null }>();
  /** When the keys were last read, by the clock that never jumps. */
  private readAt = Number.NEGATIVE_INFINITY;
  private reading: Promise<void> | undefined;

  constructor(database: Database, box: SecretBox) {
    this.database = database;
    this.box = box;
  }

  async current(): Promise<SigningKey> {
    // A rotation by another process is seen within a minute; until then the retired key still verifies.
    if (this.signing === undefined || this.areOld()) await this.read();
    if (this.signing === undefined) throw new Error('there is no signing key');
    return this.signing;
  }

  /**
   * The public key of that id, or undefined. For an unknown id the database is read, at most once a second. Whoever asks sooner
   * waits: another process may have rotated the keys since the last read, and its tokens are valid at once. That read may still be
   * under way, so it is waited for and not relied on.
   */
  async publicKey(kid: string): Promise<CryptoKey | undefined> {
    if (this.areOld()) await this.read();
    else if (!this.verifyingKeys.has(kid)) await this.reading;
    if (!this.verifyingKeys.has(kid)) {
      await sleep(Math.max(0, this.readAt + readEveryMs - performance.now()));
      await this.read();
    }
    const known = this.verifyingKeys.get(kid);
    return known !== undefined && verifies(known.retiredAt) ? known.key : undefined;
  }

  /** Whether what the key has signed, and was checked before, still holds. Also false when the keys are to be read again for that. */
  stillVerifies(kid: string): boolean {
    const known = this.verifyingKeys.get(kid);
    return known !== undefined && verifies(known.retiredAt) && !this.areOld();
  }

  async jwks(): Promise<{ keys: JWK[] }> {
    if (performance.now() - this.readAt > readEveryMs) await this.read();
    return { keys: [...this.verifyingKeys.values()].map((entry) => entry.jwk) };
  }

  /** Makes the key that signs from now on: here after the commit and `read`, in other processes within a minute. */
  async rotate(transaction: Db): Promise<string> {
    const made = await makeKey(this.box);
    const keys = await readStored(transaction);
    const retiredAt = new Date().toISOString();
    const kept = keys.map((key) => ({ ...key, retired_at: key.retired_at ?? retiredAt })).filter((key) => verifies(key.retired_at));
    await writeStored(transaction, [made, ...kept]);
    return made.kid;
  }

  private areOld(): boolean {
    return performance.now() - this.readAt > readAfterMs;
  }

  read(): Promise<void> {
    this.reading ??= this.load().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  private async load(): Promise<void> {
    let keys = await readStored(this.database.db);
    if (keys.length === 0) keys = await this.makeFirst();
    const valid = keys.filter((key) => verifies(key.retired_at));
    this.verifyingKeys = new Map(
      await Promise.all(
        valid.map(async (key) => [key.kid, { jwk: key.public, key: await keyFrom(key.public), retiredAt: key.retired_at }] as const),
      ),
    );
    const current = keys.find((key) => key.retired_at === null);
    if (current === undefined) throw new Error('there is no signing key');
    const privateJwk: JWK = JSON.parse(this.box.open(current.sealed, context));
    this.signing = { kid: current.kid, privateKey: await keyFrom(privateJwk) };
    this.readAt = performance.now();
  }

  /** Several processes may try at once; all of them use the key of the first. */
  private async makeFirst(): Promise<StoredKey[]> {
    const made = await makeKey(this.box);
    return this.database.db.transaction().execute(async (transaction) => {
      const existing = await readStored(transaction);
      if (existing.length > 0) return existing;
      await writeStored(transaction, [made]);
      return [made];
    });
  }
}

function verifies(retiredAt: string | null): boolean {
  return retiredAt === null || Date.now() - Date.parse(retiredAt) < verifyAfterRetirementMs;
}

/** Encrypts a sealed value anew with another secret key. */
export type Reseal = (sealed: string, context: string) => string;

export async function resealSigningKeys(transaction: Db, reseal: Reseal): Promise<void> {
  const keys = await readStored(transaction);
  if (keys.length === 0) return;
  await writeStored(
    transaction,
    keys.map((key) => ({ ...key, sealed: reseal(key.sealed, context) })),
  );
}

async function makeKey(box: SecretBox): Promise<StoredKey> {
  const { exportJWK, generateKeyPair } = await import('jose');
  const pair = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
  const kid = `key_${randomBytes(8).toString('hex')}`;
  return {
    kid,
    public: { ...(await exportJWK(pair.publicKey)), kid, alg: 'EdDSA', use: 'sig' },
    sealed: box.seal(JSON.stringify(await exportJWK(pair.privateKey)), context),
    created_at: new Date().toISOString(),
    retired_at: null,
  };
}

async function keyFrom(jwk: JWK): Promise<CryptoKey> {
  const { importJWK } = await import('jose');
  const key = await importJWK(jwk, 'EdDSA');
  if (key instanceof Uint8Array) throw new Error('a signing key is not an Ed25519 key');
  return key;
}

/** In a transaction, which may be about to write them, it first waits for any other process that does. */
async function readStored(db: Db): Promise<StoredKey[]> {
  if (db.isTransaction) await sql`select pg_advisory_xact_lock(${locks.signingKeys})`.execute(db);
  const { rows } = await sql<{ value: { keys: StoredKey[] } }>`select value from installation where key = 'signing_keys'`.execute(db);
  return rows[0]?.value.keys ?? [];
}

async function writeStored(transaction: Db, keys: StoredKey[]): Promise<void> {
  const value = JSON.stringify({ keys });
  await transaction
    .insertInto('installation')
    .values({ key: 'signing_keys', value })
    .onConflict((conflict) => conflict.column('key').doUpdateSet({ value }))
    .execute();
}
