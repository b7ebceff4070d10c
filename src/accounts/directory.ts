import { sql } from 'kysely';
import type { Database, Db } from '../database/database.ts';
import { keyShapes } from '../text/key-shapes.ts';
import { type Agent, agentFrom, selectAgents } from './agents.ts';
import { hashOfSecret } from './api-keys.ts';
import { KeyUse } from './key-use.ts';
import { readSealedCredential } from './model-credentials.ts';
import { type ChangedOrg, OrgCache } from './org-cache.ts';
import { organizationColumns, organizationFrom } from './organizations.ts';
import type { KeyPrincipal, Organization } from './principal.ts';
import { type Release, releaseFrom } from './releases.ts';
import { isSlug } from './slugs.ts';

/**
 * Keeps in memory what every request needs to know: whose an API key is, and what an agent runs. A change of an org drops
 * everything that is cached of it, here at once and in the other processes when they are notified.
 */
export class Directory {
  private readonly database: Database;
  private readonly processId: string;
  private readonly keys = new OrgCache<KeyPrincipal>();
  private readonly organizations = new OrgCache<Organization>();
  private readonly agents = new OrgCache<Agent>();
  private readonly releases = new OrgCache<Release>();
  /** Also remembers that there is none: most turns run without a credential of the org. */
  private readonly credentials = new OrgCache<{ sealed: string | undefined }>();
  private readonly keyUse: KeyUse;
  private readonly listeners = new Set<(changed: ChangedOrg) => void>();

  constructor(database: Database, processId: string) {
    this.database = database;
    this.processId = processId;
    this.keyUse = new KeyUse(database.db);
  }

  /** The key's principal, even if its org is suspended; undefined for anything but a key that exists and is not revoked. */
  async keyBySecret(secret: string): Promise<KeyPrincipal | undefined> {
    if (!keyShapes.api.test(secret)) return undefined;
    const hash = hashOfSecret(secret);
    const principal = await this.keys.get(hash, () => this.readKey(hash));
    if (principal !== undefined) this.keyUse.note(principal.keyId);
    return principal;
  }

  async organizationBySlug(slug: string): Promise<Organization | undefined> {
    if (!isSlug(slug)) return undefined;
    return this.organizations.get(slug, () => this.readOrganization('slug', slug));
  }

  async organizationById(id: number): Promise<Organization | undefined> {
    return this.organizations.get(`id ${id}`, () => this.readOrganization('id', id));
  }

  async agentBySlug(orgId: number, slug: string): Promise<Agent | undefined> {
    if (!isSlug(slug)) return undefined;
    return this.agents.get(`${orgId}/${slug}`, () => this.readAgent(orgId, 'slug', slug));
  }

  async agentById(orgId: number, id: number): Promise<Agent | undefined> {
    return this.agents.get(`${orgId}/id ${id}`, () => this.readAgent(orgId, 'id', id));
  }

  async release(orgId: number, agentId: number, version: number): Promise<Release | undefined> {
    return this.releases.get(`${orgId}/${agentId}/${version}`, async () => {
      const row = await this.database.db
        .selectFrom('releases')
        .selectAll()
        .where('org_id', '=', orgId)
        .where('agent_id', '=', agentId)
        .where('version', '=', version)
        .executeTakeFirst();
      return row && { orgId, value: releaseFrom(row), size: lengthOf(row.config) + lengthOf(row.pinned_tools) };
    });
  }

  /** The release that new sessions of the agent get. */
  async activeRelease({ orgId, id, activeVersion }: Agent): Promise<Release | undefined> {
    return activeVersion === undefined ? undefined : this.release(orgId, id, activeVersion);
  }

  /** The credential of that name, still encrypted: only whoever uses it opens it. */
  async sealedCredential(orgId: number, name: string): Promise<string | undefined> {
    const credential = await this.credentials.get(`${orgId}/${name}`, async () => ({
      orgId,
      value: { sealed: await readSealedCredential(this.database.db, orgId, name) },
    }));
    return credential?.sealed;
  }

  /** Runs a change of what belongs to an org. The other processes are notified within its transaction: if and only if it commits. */
  async change<Result>(orgId: number, work: (transaction: Db) => Promise<Result>): Promise<Result> {
    const result = await this.database.db.transaction().execute(async (transaction) => {
      const outcome = await work(transaction);
      if (this.database.engine === 'postgres') {
        await sql`select pg_notify('parley', ${`${this.processId} changed ${orgId}`})`.execute(transaction);
      }
      return outcome;
    });
    this.invalidate(orgId);
    return result;
  }

  /** Drops what is cached of an org, or of all. Another process asks for this with `<process> changed <org id>`. */
  invalidate(changed: ChangedOrg): void {
    for (const cache of [this.keys, this.organizations, this.agents, this.releases, this.credentials]) cache.drop(changed);
    for (const listener of this.listeners) listener(changed);
  }

  /** Calls back after each change by any process. Returns a function that ends it. */
  onChange(listener: (changed: ChangedOrg) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Writes when keys were last used; call it before the database closes. */
  async close(): Promise<void> {
    await this.keyUse.close();
  }

  private async readKey(hash: string): Promise<{ orgId: number; value: KeyPrincipal } | undefined> {
    const row = await this.database.db
      .selectFrom('api_keys')
      .innerJoin('organizations', 'organizations.id', 'api_keys.org_id')
      .select(organizationColumns)
      .select(['api_keys.id as key_id', 'api_keys.prefix', 'api_keys.scopes', 'api_keys.manages_owners'])
      .where('api_keys.hash', '=', hash)
      .where('api_keys.revoked_at', 'is', null)
      .executeTakeFirst();
    if (row === undefined) return undefined;
    const organization = organizationFrom(row);
    const value: KeyPrincipal = {
      type: 'key',
      keyId: row.key_id,
      prefix: row.prefix,
      organization,
      scopes: new Set(row.scopes),
      managesOwners: row.manages_owners,
    };
    return { orgId: organization.id, value };
  }

  private async readOrganization(
    column: 'slug' | 'id',
    value: string | number,
  ): Promise<{ orgId: number; value: Organization } | undefined> {
    const row = await this.database.db
      .selectFrom('organizations')
      .select(organizationColumns)
      .where(`organizations.${column}`, '=', value)
      .executeTakeFirst();
    return row && { orgId: row.id, value: organizationFrom(row) };
  }

  private async readAgent(
    orgId: number,
    column: 'slug' | 'id',
    value: string | number,
  ): Promise<{ orgId: number; value: Agent } | undefined> {
    const row = await selectAgents(this.database.db, orgId).where(`agents.${column}`, '=', value).executeTakeFirst();
    return row && { orgId, value: agentFrom(row) };
  }
}

/** Approximates how much memory the value takes. */
function lengthOf(value: unknown): number {
  return JSON.stringify(value).length;
}
