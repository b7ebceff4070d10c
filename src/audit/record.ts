import { hash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { type Selectable, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { locks } from '../database/locks.ts';
import type { Schema } from '../database/schema.ts';
import type { AuditAction } from './actions.ts';

/** Who acts, and on which org. Without an email, a user or a key it is the operator, or the program itself. */
export interface Actor {
  orgId: number;
  at: Date;
  email?: string;
  userId?: string;
  apiKeyPrefix?: string;
  ipAddress?: string;
  userAgent?: string | undefined;
}

export interface AuditEntry {
  action: AuditAction;
  subjectType: string;
  subjectId: string | number;
  /** Never a secret: not a bearer token, a webhook secret or a stored credential. */
  metadata?: Record<string, unknown>;
}

/** What a row's hash covers: all of it, including the hash of the org's previous row. */
export type ChainedContent = Omit<Selectable<Schema['audit_events']>, 'id' | 'hash'>;

export const firstHash = '0'.repeat(64);

/** Adds an event to the org's chain, in the transaction of the change it records. */
export async function recordAudit(transaction: Db, actor: Actor, entry: AuditEntry): Promise<void> {
  // Held until the commit: without it, two concurrent changes could both follow the same row.
  await sql`select pg_advisory_xact_lock(${locks.auditChain}, ${actor.orgId})`.execute(transaction);
  const previous = await transaction
    .selectFrom('audit_events')
    .select('hash')
    .where('org_id', '=', actor.orgId)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  const content: ChainedContent = {
    org_id: actor.orgId,
    created_at: actor.at,
    action: entry.action,
    actor_email: actor.email ?? null,
    actor_user_id: actor.userId ?? null,
    api_key_prefix: actor.apiKeyPrefix ?? null,
    subject_type: entry.subjectType,
    subject_id: String(entry.subjectId),
    ip_address: actor.ipAddress ?? null,
    user_agent: actor.userAgent?.slice(0, 512) ?? null,
    // The hash must cover what a later read returns, so not what JSON leaves out, such as undefined fields.
    metadata: JSON.parse(JSON.stringify(entry.metadata ?? {})),
    previous_hash: previous?.hash ?? firstHash,
  };
  await transaction
    .insertInto('audit_events')
    .values({ ...content, metadata: JSON.stringify(content.metadata), hash: hashOf(content) })
    .execute();
}

export function hashOf(content: ChainedContent): string {
  return hash('sha256', canonicalize({ ...content, created_at: content.created_at.toISOString() }) ?? '');
}
