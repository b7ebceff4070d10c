import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Context } from '../../../context.ts';
import type { ServiceError } from '../../../errors.ts';
import { newId } from '../../../ids.ts';
import { toWireError, wireBody } from '../errors.ts';

interface Refusal {
  orgId: number;
  route: string;
  body: string;
}

type Needed = Pick<Context, 'rateLimit' | 'waitingRoom' | 'metrics' | 'logger'>;

/** No longer, since a key that is revoked must be refused everywhere within a second. */
const rememberedMs = 1_000;

/**
 * In a flood, turning requests away is most of the work. What one was told is what the next of the same caller to the same
 * place is told, without looking up who and where that is, for as long as there is no room for their organization.
 */
export class Refusals {
  private readonly context: Needed;
  private readonly recent = new LRUCache<string, Refusal>({ max: 1_000, ttl: rememberedMs });

  constructor(context: Needed) {
    this.context = context;
  }

  remember(request: FastifyRequest, orgId: number, error: ServiceError): void {
    const name = nameOf(request.raw);
    if (name === undefined) return;
    this.recent.set(name, { orgId, route: request.routeOptions.url ?? 'unknown', body: wireBody(request, toWireError(error)) });
  }

  /** Answers in place of the server, and tells whether it did. What the server does before its first hook would cost half as much again. */
  answer(request: IncomingMessage, response: ServerResponse): boolean {
    const name = this.recent.size === 0 ? undefined : nameOf(request);
    const known = name === undefined ? undefined : this.recent.get(name);
    if (known === undefined) return false;
    const { rateLimit, waitingRoom, metrics, logger } = this.context;
    const { orgId, route, body } = known;
    if (!waitingRoom.isClosedTo(orgId)) return false;
    try {
      rateLimit.take(orgId);
    } catch {
      // The server finds the same, and says so: what is told 429 was not shed.
      return false;
    }
    const requestId = newId('rid_');
    response.writeHead(503, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      'retry-after': String(waitingRoom.refusalOf(orgId)?.retryAfterSeconds ?? 1),
      'x-request-id': requestId,
      'x-should-retry': 'true',
    });
    response.end(body);
    const method = request.method ?? '';
    metrics.requestEnded(route, method, 503, 0);
    if (logger.isLevelEnabled('info')) {
      logger.info({ request_id: requestId, org_id: orgId, method, route, status: 503, ms: 0 }, 'request');
    }
    return true;
  }
}

/** Who asks for what, as it stands in the request. A browser's answer has more to it than this knows of. */
function nameOf({ method, url, headers }: IncomingMessage): string | undefined {
  const { authorization, origin, host } = headers;
  return authorization === undefined || origin !== undefined ? undefined : `${method} ${host} ${url} ${authorization}`;
}
