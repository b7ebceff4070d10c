import { type Selectable, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';

export interface AuditFilters {
  action?: string | undefined;
  userId?: string | undefined;
  /** Inclusive days in UTC, `YYYY-MM-DD`. */
  from?: string | undefined;
  to?: string | undefined;
}

export type AuditRow = Selectable<Schema['audit_events']>;

/** Newest first. `before` is the id of the last event on the previous page. */
export async function readAuditPage(
  db: Db,
  orgId: number,
  filters: AuditFilters,
  page: { limit: number; before: number | undefined },
): Promise<AuditRow[]> {
  let query = filtered(db, orgId, filters).selectAll().orderBy('id', 'desc').limit(page.limit);
  if (page.before !== undefined) query = query.where('id', '<', page.before);
  return query.execute();
}

/** Undefined when the org has no such event. */
export async function findAuditEvent(db: Db, orgId: number, id: number): Promise<AuditRow | undefined> {
  return filtered(db, orgId, {}).selectAll().where('id', '=', id).executeTakeFirst();
}

/** How many events the filters match: exact up to ten thousand, above that an estimate of the query planner. */
export async function estimateAuditRows(db: Db, orgId: number, filters: AuditFilters): Promise<number> {
  const exactUpTo = 10_000;
  const few = filtered(db, orgId, filters)
    .select('id')
    .limit(exactUpTo + 1);
  const counted = await db
    .selectFrom(few.as('few'))
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  if (counted.count <= exactUpTo) return counted.count;
  const [explained] = await filtered(db, orgId, filters).select('id').explain<Explained>('json');
  return Math.max(counted.count, explained?.['QUERY PLAN'][0].Plan['Plan Rows'] ?? 0);
}

/** The columns of an export, besides the metadata, which is exported as JSON text. */
export const lineColumns = [
  'created_at',
  'action',
  'actor_email',
  'api_key_prefix',
  'subject_type',
  'subject_id',
  'ip_address',
  'user_agent',
] as const;

export type AuditLine = Pick<AuditRow, (typeof lineColumns)[number]> & { metadata: string };

/**
 * Every matching event, newest first, from the event with the id `upTo`. It reads a page at a time: memory does not grow
 * with the export, and no transaction stays open.
 */
export async function* readAllAudit(
  db: Db,
  orgId: number,
  filters: AuditFilters,
  upTo: number,
  pageSize = 500,
): AsyncGenerator<AuditLine[]> {
  let before = upTo + 1;
  for (;;) {
    const rows = await filtered(db, orgId, filters)
      .select(['id', ...lineColumns])
      // As text: an export of a million events need not parse a million objects.
      .select(sql<string>`metadata::text`.as('metadata'))
      .where('id', '<', before)
      .orderBy('id', 'desc')
      .limit(pageSize)
      .execute();
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    before = last.id;
  }
}

/** Id of the org's newest event, where an export begins. */
export async function newestAuditId(db: Db, orgId: number): Promise<number> {
  const row = await db
    .selectFrom('audit_events')
    .select('id')
    .where('org_id', '=', orgId)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row?.id ?? 0;
}

function filtered(db: Db, orgId: number, filters: AuditFilters) {
  let query = db.selectFrom('audit_events').where('org_id', '=', orgId);
  if (filters.action !== undefined) query = query.where('action', '=', filters.action);
  if (filters.userId !== undefined) query = query.where('actor_user_id', '=', filters.userId);
  if (filters.from !== undefined) query = query.where('created_at', '>=', sql<Date>`${filters.from}::timestamp at time zone 'utc'`);
  if (filters.to !== undefined)
    query = query.where('created_at', '<', sql<Date>`(${filters.to}::timestamp + interval '1 day') at time zone 'utc'`);
  return query;
}

interface Explained {
  'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }];
}
