import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { isDatabaseFailure } from '../../../database/database.ts';
import { ServiceError } from '../../../errors.ts';
import type { Logger } from '../../../telemetry/logger.ts';
import { outage, sendError } from '../errors.ts';
import { patternWords } from '../schemas/fields.ts';
import { dropRest } from './rest-of-body.ts';

/** Never a 500 for something that a client sent: Fastify's own refusals become ours, and the surface's kind of bad body. */
export function handleError(logger: Logger): (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => void {
  return (error, request, reply) => {
    const known = knownError(error, request.routeOptions.config.badBody ?? 'invalid');
    if (isOutage(error)) logger.warn({ err: error, request_id: request.id }, 'database error');
    // Work that was cut off because its client left has not failed.
    const isCutOff = error.name === 'AbortError' && reply.raw.destroyed;
    if (known === undefined && !isCutOff) logger.error({ err: error, request_id: request.id }, 'request failed');
    if (known?.kind === 'too-large' || known?.kind === 'unsupported-media-type') return void refuseRest(request, reply, known);
    if (request.raw.readableEnded) keepConnection(reply);
    sendError(reply, known ?? new ServiceError('internal', 'Internal error'));
  };
}

async function refuseRest(request: FastifyRequest, reply: FastifyReply, error: ServiceError): Promise<void> {
  if (await dropRest(request.raw)) keepConnection(reply);
  sendError(reply, error);
}

/** Fastify asks for the connection to be closed after a bad body; once that was read there is no need to. One that is closed anyway has to be told. */
function keepConnection(reply: FastifyReply): void {
  if (reply.raw.shouldKeepAlive) reply.removeHeader('connection');
}

function knownError(error: FastifyError, badBody: 'invalid' | 'bad-request'): ServiceError | undefined {
  if (error instanceof ServiceError) return error;
  if (isOutage(error)) return outage(error);
  if (error.validation !== undefined) return new ServiceError(badBody, describeValidation(error));
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new ServiceError('too-large', 'The body is too large for this route.');
  if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE')
    return new ServiceError('unsupported-media-type', 'Send Content-Type: application/json.');
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) return new ServiceError(badBody, error.message);
  return undefined;
}

/** A client that leaves in the middle of its body resets a connection too; Fastify gives that a status. */
function isOutage(error: FastifyError): boolean {
  return error.statusCode === undefined && isDatabaseFailure(error);
}

/** Names the field first, in the client's own words for it. */
function describeValidation({ validation = [], validationContext = 'body' }: FastifyError): string {
  const nearest = nearestOf(validation);
  const path = (nearest?.instancePath ?? '').split('/').filter((name) => name !== '');
  const { requiredProperties: missing } = nearest?.params ?? {};
  const field = [...path, ...(Array.isArray(missing) ? [String(missing[0])] : [])].join('.');
  return `${field === '' ? validationContext : field}: ${Array.isArray(missing) ? 'is required' : reasonOf(validation, nearest)}`;
}

type Refusal = NonNullable<FastifyError['validation']>[number];

/** Where one of several shapes is taken, each says why it does not fit: the one that fits furthest is the one that was meant. */
function nearestOf(validation: Refusal[]): Refusal | undefined {
  return validation.reduce<Refusal | undefined>((best, next) => {
    if (best === undefined) return next;
    if (best.keyword !== 'type' || next.keyword === 'anyOf') return best;
    const isBelow = next.instancePath.startsWith(`${best.instancePath}/`);
    return isBelow || (next.instancePath === best.instancePath && next.keyword !== 'type') ? next : best;
  }, undefined);
}

function reasonOf(validation: Refusal[], nearest: Refusal | undefined): string {
  if (nearest?.keyword === 'boolean') return 'is not a known field';
  const same = validation.filter(({ instancePath }) => instancePath === nearest?.instancePath);
  const allowed = same.flatMap(({ keyword, params }) => (keyword === 'const' ? [params.allowedValue] : (params.allowedValues ?? [])));
  if (allowed.length > 0) return `must be ${allowed.length === 1 ? '' : 'one of '}${allowed.join(', ')}`;
  if (nearest?.keyword === 'type') return `must be ${same.flatMap(({ params }) => params.type ?? []).join(' or ')}`;
  return patternWords.get(nearest?.params.pattern) ?? nearest?.message ?? 'is not valid';
}
