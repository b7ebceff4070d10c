import type { Selectable } from 'kysely';
import { contextOfOrg, type SecretBox } from '../accounts/secret-box.ts';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { isEventType } from './event-types.ts';
import { newSigningSecret } from './signature.ts';

/** A URL of a customer that is told of events by webhook. */
export interface WebhookEndpoint {
  id: number;
  name: string;
  url: string;
  /** Empty: every supported type. */
  eventTypes: string[];
  enabled: boolean;
  disabledReason: string | undefined;
  consecutiveFailures: number;
  previousSecretUntil: Date | undefined;
  createdAt: Date;
  updatedAt: Date;
}

export interface EndpointInput {
  name: string;
  url: string;
  eventTypes: string[];
}

const maxEndpoints = 1_000;

/**
 * The secret is returned here and never again. The caller has checked the URL: that includes a name lookup, which must not
 * happen inside a transaction.
 */
export async function createEndpoint(
  transaction: Db,
  actor: Actor,
  box: SecretBox,
  input: EndpointInput,
): Promise<{ endpoint: WebhookEndpoint; secret: string }> {
  const { count } = await transaction
    .selectFrom('webhook_endpoints')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('org_id', '=', actor.orgId)
    .executeTakeFirstOrThrow();
  if (count >= maxEndpoints) throw new ServiceError('conflict', `An organization has at most ${maxEndpoints} webhook endpoints`);
  const secret = newSigningSecret();
  const row = await transaction
    .insertInto('webhook_endpoints')
    .values({
      org_id: actor.orgId,
      name: input.name,
      url: input.url,
      event_types: JSON.stringify(uniqueTypes(input.eventTypes)),
      secret_ciphertext: box.seal(secret, contextOfOrg(actor.orgId)),
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  await auditEndpoint(transaction, actor, 'created', row.id, { name: row.name, host: hostOf(row.url), event_types: row.event_types });
  return { endpoint: endpointFrom(row), secret };
}

export async function listEndpoints(db: Db, orgId: number): Promise<WebhookEndpoint[]> {
  const rows = await db.selectFrom('webhook_endpoints').selectAll().where('org_id', '=', orgId).orderBy('id').execute();
  return rows.map(endpointFrom);
}

export async function findEndpoint(db: Db, orgId: number, id: number): Promise<WebhookEndpoint | undefined> {
  const row = await db.selectFrom('webhook_endpoints').selectAll().where('org_id', '=', orgId).where('id', '=', id).executeTakeFirst();
  return row && endpointFrom(row);
}

/** Fields that are undefined stay as they are. */
export async function updateEndpoint(
  transaction: Db,
  actor: Actor,
  id: number,
  { name, url, eventTypes }: { [Field in keyof EndpointInput]: EndpointInput[Field] | undefined },
): Promise<WebhookEndpoint | undefined> {
  const types = eventTypes && uniqueTypes(eventTypes);
  const row = await transaction
    .updateTable('webhook_endpoints')
    .set({ name, url, event_types: types && JSON.stringify(types), updated_at: actor.at })
    .where('org_id', '=', actor.orgId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) return undefined;
  await auditEndpoint(transaction, actor, 'updated', id, { changes: { name, host: url && hostOf(url), event_types: types } });
  return endpointFrom(row);
}

/** Deletes the endpoint and its deliveries, including those that were not delivered yet. */
export async function deleteEndpoint(transaction: Db, actor: Actor, id: number): Promise<boolean> {
  const row = await transaction
    .deleteFrom('webhook_endpoints')
    .where('org_id', '=', actor.orgId)
    .where('id', '=', id)
    .returning(['name', 'url'])
    .executeTakeFirst();
  if (row === undefined) return false;
  await auditEndpoint(transaction, actor, 'deleted', id, { name: row.name, host: hostOf(row.url) });
  return true;
}

const overlapMs = 24 * 3_600_000;

/** The new secret signs from now on. For a day the previous one signs too, so that receivers can change over. */
export async function rotateSecret(
  transaction: Db,
  actor: Actor,
  box: SecretBox,
  id: number,
): Promise<{ endpoint: WebhookEndpoint; secret: string } | undefined> {
  const secret = newSigningSecret();
  const row = await transaction
    .updateTable('webhook_endpoints')
    .set(({ ref }) => ({
      secret_ciphertext: box.seal(secret, contextOfOrg(actor.orgId)),
      previous_secret_ciphertext: ref('secret_ciphertext'),
      previous_secret_until: new Date(actor.at.getTime() + overlapMs),
      updated_at: actor.at,
    }))
    .where('org_id', '=', actor.orgId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) return undefined;
  await auditEndpoint(transaction, actor, 'secret_rotated', id, { name: row.name });
  return { endpoint: endpointFrom(row), secret };
}

export function endpointFrom(row: Selectable<Schema['webhook_endpoints']>): WebhookEndpoint {
  return {
    id: row.id,
    name: row.name,
    url: row.url,
    eventTypes: row.event_types,
    enabled: row.enabled,
    disabledReason: row.disabled_reason ?? undefined,
    consecutiveFailures: row.consecutive_failures,
    previousSecretUntil: row.previous_secret_until ?? undefined,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function uniqueTypes(types: readonly string[]): string[] {
  const unknown = types.find((type) => !isEventType(type));
  if (unknown !== undefined) throw new ServiceError('invalid', `event_types: "${unknown}" is not a supported event type`);
  return [...new Set(types)];
}

/** What the audit log says of a URL: the rest of it may contain a secret. */
function hostOf(url: string): string {
  return new URL(url).host;
}

export async function auditEndpoint(
  transaction: Db,
  actor: Actor,
  verb: 'created' | 'updated' | 'deleted' | 'enabled' | 'disabled' | 'secret_rotated',
  id: number,
  metadata: Record<string, unknown>,
): Promise<void> {
  await recordAudit(transaction, actor, { action: `webhook_endpoint.${verb}`, subjectType: 'webhook_endpoint', subjectId: id, metadata });
}
