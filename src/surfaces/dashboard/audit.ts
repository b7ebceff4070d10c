import type { onRequestAsyncHookHandler } from 'fastify';
import { type AuditRow, estimateAuditRows, findAuditEvent, readAuditPage } from '../../audit/read.ts';
import { timestamp, validDay } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { orNotFound, ServiceError } from '../../errors.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import type { Server } from '../shared/fastify.ts';
import { pathNumber } from '../shared/path.ts';
import { decodeBigintCursor, limitOf, readPage } from '../shared/schemas/list.ts';
import { auditQuery } from './schemas.ts';

const config = { family: 'management' as const };

/** The audit log as the dashboard shows it. Unlike an export, reading it here is not recorded in the log: so only members can. */
export function dashboardAuditRoutes(server: Server, context: Context): void {
  const { db } = context.database;
  const onRequest = [requireKey(context, 'audit_log:export'), refuseKey];

  server.get('/dashboard/api/audit', { config, onRequest, schema: { hide: true, querystring: auditQuery } }, async (request) => {
    const { id: orgId } = principalOf(request).organization;
    const { action, user_id: userId, from, to } = request.query;
    const filters = { action, userId, from: validDay(from), to: validDay(to) };
    const before = decodeBigintCursor('audit_events', request.query.cursor);
    const page = await readPage(
      'audit_events',
      limitOf(request.query),
      (limit) => readAuditPage(db, orgId, filters, { limit, before }),
      (row) => row.id,
      showEvent,
    );
    return before === undefined ? { ...page, row_estimate: await estimateAuditRows(db, orgId, filters) } : page;
  });

  server.get('/dashboard/api/audit/:id', { config, onRequest, schema: { hide: true } }, async (request) => {
    const { id: orgId } = principalOf(request).organization;
    const event = await findAuditEvent(db, orgId, pathNumber(request, 'id', Number.MAX_SAFE_INTEGER));
    return { event: showEvent(orNotFound(event)) };
  });
}

function showEvent(row: AuditRow) {
  return {
    id: row.id,
    action: row.action,
    actor_email: row.actor_email,
    api_key_prefix: row.api_key_prefix,
    subject_type: row.subject_type,
    subject_id: row.subject_id,
    ip_address: row.ip_address,
    user_agent: row.user_agent,
    metadata: row.metadata,
    hash: row.hash,
    created_at: timestamp(row.created_at),
  };
}

const refuseKey: onRequestAsyncHookHandler = async (request) => {
  if (principalOf(request).type === 'key')
    throw new ServiceError('forbidden', 'This page is for members. A key exports the audit log with GET /api/audit_events.');
};
