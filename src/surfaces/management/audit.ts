import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { auditCsv } from '../../audit/csv.ts';
import { type AuditFilters, type AuditRow, estimateAuditRows, newestAuditId, readAllAudit, readAuditPage } from '../../audit/read.ts';
import { recordAudit } from '../../audit/record.ts';
import { verifyAuditChain } from '../../audit/verify.ts';
import { timestamp, validDay } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { actorOf } from '../shared/caller/actor.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import type { RouteFamily, Server } from '../shared/fastify.ts';
import { answered } from '../shared/schemas/answers.ts';
import { headField } from '../shared/schemas/fields.ts';
import { decodeBigintCursor, limitOf, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';

const tags = ['Audit log'];
/** Where hosts are split, the audit log is served on both. */
const config: { family: RouteFamily[] } = { family: ['base', 'management'] };
const text = Type.Union([Type.String(), Type.Null()]);

const auditEvent = Type.Object(
  {
    created_at: Type.String(),
    action: Type.String(),
    actor_email: text,
    api_key_prefix: text,
    subject_type: Type.String(),
    subject_id: Type.String(),
    ip_address: text,
    user_agent: text,
    metadata: Type.Record(Type.String(), Type.Unknown()),
  },
  { title: 'AuditEvent' },
);

const filterFields = {
  event_action: Type.Optional(Type.String({ description: 'Only events with this action.' })),
  user_id: Type.Optional(Type.String({ description: 'Only events caused by this user.' })),
  from: Type.Optional(Type.String({ description: 'First day, YYYY-MM-DD, in UTC; an invalid date is ignored.' })),
  to: Type.Optional(Type.String({ description: 'Last day, likewise.' })),
};
const csvQuery = Type.Object(filterFields);
const jsonQuery = Type.Object({
  ...filterFields,
  limit: Type.Optional(Type.Integer({ default: 100, description: 'At most 500.' })),
  cursor: Type.Optional(Type.String({ description: 'The `meta.next_cursor` of the previous page.' })),
});

const verificationQuery = Type.Object({ head: Type.Optional(headField) });

export function auditRoutes(server: Server, context: Context): void {
  const guard = requireKey(context, 'audit_log:export');

  server.get(
    '/api/audit_events',
    {
      config,
      onRequest: [guard],
      schema: {
        tags,
        summary: 'Export audit events as JSON',
        description: 'Newest first. Every export is first recorded itself, as `audit_log.exported`.',
        querystring: jsonQuery,
        response: answered(
          200,
          Type.Object({
            data: Type.Array(auditEvent),
            meta: Type.Object({ row_estimate: Type.Integer(), limit: Type.Integer(), next_cursor: text }),
          }),
        ),
      },
    },
    async (request) => {
      const { id: orgId } = principalOf(request).organization;
      const { db } = context.database;
      const before = decodeBigintCursor('audit_events', request.query.cursor);
      const limit = limitOf(request.query, 100, 500);
      const filters = filtersOf(request.query);
      await recordExport(request, { format: 'json', ...parametersOf(filters), limit });
      const { data, next_cursor } = await readPage(
        'audit_events',
        limit,
        (count) => readAuditPage(db, orgId, filters, { limit: count, before }),
        (row) => row.id,
        showEvent,
      );
      return { data, meta: { row_estimate: await estimateAuditRows(db, orgId, filters), limit, next_cursor } };
    },
  );

  server.get(
    '/api/audit_events/verification',
    {
      config,
      onRequest: [guard],
      schema: {
        tags,
        summary: 'Verify the hash chain of audit events',
        description:
          'Each event stores a hash of its content and of the event before it. Keep `head` elsewhere, and send it later: so a cut-off end is noticed too.',
        querystring: verificationQuery,
        response: answered(
          200,
          Type.Object({
            valid: Type.Boolean(),
            checked: Type.Integer(),
            head: Type.String(),
            has_kept_head: Type.Union([Type.Boolean(), Type.Null()], { description: 'Null if no `head` was sent.' }),
            broken: Type.Union([Type.Object({ created_at: Type.String(), action: Type.String(), reason: Type.String() }), Type.Null()]),
          }),
        ),
      },
    },
    async (request) => {
      const { id: orgId } = principalOf(request).organization;
      const { valid, checked, head, hasKeptHead, broken } = await verifyAuditChain(context.database.db, orgId, request.query.head);
      const shown = broken && { created_at: timestamp(broken.createdAt), action: broken.action, reason: broken.reason };
      return { valid, checked, head, has_kept_head: hasKeptHead ?? null, broken: shown ?? null };
    },
  );

  server.get(
    '/api/audit_events.csv',
    {
      config,
      onRequest: [guard],
      schema: {
        tags,
        summary: 'Export audit events as CSV',
        description: 'Every event that matches the filters, streamed. Cells that a spreadsheet would run as a formula are escaped.',
        querystring: csvQuery,
        response: {
          ...answered(200, Type.String()),
          200: { description: 'One line per event', content: { 'text/csv': { schema: Type.Unsafe<unknown>(Type.String()) } } },
        },
      },
    },
    async (request, reply) => {
      const { id: orgId } = principalOf(request).organization;
      const { db } = context.database;
      const filters = filtersOf(request.query);
      await recordExport(request, { format: 'csv', ...parametersOf(filters) });
      const pages = readAllAudit(db, orgId, filters, await newestAuditId(db, orgId));
      return reply
        .type('text/csv; charset=utf-8')
        .header('content-disposition', 'attachment; filename="audit_events.csv"')
        .send(Readable.from(auditCsv(pages)));
    },
  );

  async function recordExport(request: FastifyRequest, metadata: Record<string, unknown>): Promise<void> {
    const actor = actorOf(context, request);
    const entry = { action: 'audit_log.exported', subjectType: 'organization', subjectId: actor.orgId, metadata } as const;
    // Not `change`, which makes all processes drop their cache of the org: an export of many pages would do so for every page.
    await context.database.db.transaction().execute((transaction) => recordAudit(transaction, actor, entry));
  }
}

/** An empty filter, as a form sends it, and a day that does not exist count as absent. */
function filtersOf(query: Static<typeof csvQuery>): AuditFilters {
  return {
    action: query.event_action || undefined,
    userId: query.user_id || undefined,
    from: validDay(query.from),
    to: validDay(query.to),
  };
}

/** The filters under the names of the query parameters. */
function parametersOf({ action, userId, from, to }: AuditFilters): Record<string, unknown> {
  return { event_action: action, user_id: userId, from, to };
}

function showEvent(row: AuditRow) {
  return {
    created_at: timestamp(row.created_at),
    action: row.action,
    actor_email: row.actor_email,
    api_key_prefix: row.api_key_prefix,
    subject_type: row.subject_type,
    subject_id: row.subject_id,
    ip_address: row.ip_address,
    user_agent: row.user_agent,
    metadata: row.metadata,
  };
}
