import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { isDatabaseFailure } from '../../../database/database.ts';
import { ServiceError } from '../../../errors.ts';
import type { Logger } from '../../../telemetry/logger.ts';
import { outage, sendError } from '../errors.ts';
import { patternWords } from '../schemas/fields.ts';
import { discardRest } from './rest-of-body.ts';

/** Responds to every error. Nothing that a client sends is a 500: Fastify's own refusals become those of the surface. */
export function handleError(logger: Logger): (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => void {
  return (error, request, reply) => {
    const known = knownError(error, request.routeOptions);
    if (isOutage(error)) logger.warn({ err: error, request_id: request.id }, 'database error');
    if (known === undefined && !isOfClientLeaving(error, reply)) logger.error({ err: error, request_id: request.id }, 'request failed');
    if (known !== undefined && isOfUnreadBody(known, request)) return void sendAfterBody(request, reply, known);
    if (request.raw.readableEnded) keepConnection(reply);
    sendError(reply, known ?? new ServiceError('internal', 'Internal error'));
  };
}

/** Work that was aborted because its client disconnected has not failed, nor has an array that Fastify destroyed before its first page. */
function isOfClientLeaving({ name, code }: FastifyError, { raw }: FastifyReply): boolean {
  return raw.destroyed && (name === 'AbortError' || code === 'ERR_STREAM_PREMATURE_CLOSE');
}

/** A client that writes all of its body before it reads would not see a response that is sent before. */
function isOfUnreadBody({ kind }: ServiceError, { raw }: FastifyRequest): boolean {
  if (kind === 'too-large' || kind === 'unsupported-media-type') return true;
  return kind === 'unavailable' && raw.readableDidRead && !raw.readableEnded;
}

async function sendAfterBody(request: FastifyRequest, reply: FastifyReply, error: ServiceError): Promise<void> {
  if (await discardRest(request.raw)) keepConnection(reply);
  sendError(reply, error);
}

/** Fastify closes the connection after a bad body, which is not needed once the body was read. One that Node closes anyway says so. */
function keepConnection(reply: FastifyReply): void {
  if (reply.raw.shouldKeepAlive) reply.removeHeader('connection');
}

function knownError(error: FastifyError, { bodyLimit, config }: FastifyRequest['routeOptions']): ServiceError | undefined {
  const { badBody = 'invalid' } = config;
  if (error instanceof ServiceError) return error;
  if (isOutage(error)) return outage(error);
  if (error.validation !== undefined) return new ServiceError(badBody, describeValidation(error));
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return new ServiceError('too-large', `The body is too large for this route, which takes at most ${bodyLimit} bytes.`);
  if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE')
    return new ServiceError('unsupported-media-type', 'Send Content-Type: application/json.');
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) return new ServiceError(badBody, error.message);
  return undefined;
}

/** A client that disconnects while it sends its body causes a connection error as well, but Fastify gives that one a status. */
function isOutage(error: FastifyError): boolean {
  return error.statusCode === undefined && isDatabaseFailure(error);
}

/** Names the field first, by its path in the body or query. */
function describeValidation({ validation = [], validationContext = 'body' }: FastifyError): string {
  const nearest = nearestOf(validation);
  const path = (nearest?.instancePath ?? '').split('/').filter((name) => name !== '');
  const { requiredProperties: missing } = nearest?.params ?? {};
  const field = [...path, ...(Array.isArray(missing) ? [String(missing[0])] : [])].join('.');
  return `${field === '' ? validationContext : field}: ${Array.isArray(missing) ? 'is required' : reasonOf(validation, nearest)}`;
}

type Refusal = NonNullable<FastifyError['validation']>[number];

/** Where several shapes are allowed, each reports why the value does not fit. The one that fits furthest was probably meant. */
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
