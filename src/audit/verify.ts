import type { Db } from '../database/database.ts';
import { firstHash, hashOf } from './record.ts';

export interface ChainVerdict {
  valid: boolean;
  /** Events before the first that does not fit. */
  checked: number;
  /** Hash of the newest event. Whoever keeps a copy, and gives it as `keptHead` later, also detects that events at the end were deleted. */
  head: string;
  /** Whether an event has the hash `keptHead`; undefined if none was given. If not, the chain is not valid. */
  hasKeptHead: boolean | undefined;
  broken: { id: number; createdAt: Date; action: string; reason: string } | undefined;
}

/** Walks an org's chain from its first event. A changed, inserted or missing row breaks it. */
export async function verifyAuditChain(db: Db, orgId: number, keptHead?: string): Promise<ChainVerdict> {
  let head = firstHash;
  let hasKeptHead = keptHead === undefined ? undefined : keptHead === firstHash;
  let checked = 0;
  let after = 0;
  for (;;) {
    const rows = await db
      .selectFrom('audit_events')
      .selectAll()
      .where('org_id', '=', orgId)
      .where('id', '>', after)
      .orderBy('id')
      .limit(1_000)
      .execute();
    if (rows.length === 0) return { valid: hasKeptHead !== false, checked, head, hasKeptHead, broken: undefined };
    for (const { id, hash, ...content } of rows) {
      const reason =
        content.previous_hash !== head
          ? 'an event before it is missing or was changed'
          : hash !== hashOf(content)
            ? 'its content was changed'
            : undefined;
      if (reason !== undefined)
        return { valid: false, checked, head, hasKeptHead, broken: { id, createdAt: content.created_at, action: content.action, reason } };
      head = hash;
      if (hash === keptHead) hasKeptHead = true;
      checked += 1;
      after = id;
    }
  }
}
