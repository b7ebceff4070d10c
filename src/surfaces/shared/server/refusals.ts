import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Context } from '../../../context.ts';
import type { ServiceError } from '../../../errors.ts';
import { newId } from '../../../ids.ts';
import { toWireError, wireBody } from '../errors.ts';

interface Remembered {
  orgId: number;
  route: string;
  body: string;
}

/** The parts of a request that tell who asks for what. */
export interface Asked {
  method?: string | undefined;
  url?: string | undefined;
  headers: { authorization?: string | undefined; origin?: string | undefined; host?: string | undefined };
}

/** The answer to a request that is refused, with 503. */
export interface Refusal {
  headers: Record<string, string | number>;
  body: string;
}

type Needed = Pick<Context, 'rateLimit' | 'waitingRoom' | 'metrics' | 'logger'>;

/** No longer, because a revoked key must be refused as such within a second. */
const rememberedMs = 1_000;

/**
 * In an overload, refusing requests is most of the work. While the waiting room is closed to an organization, the refusal of one
 * request is repeated to further requests with the same credential and URL, without authentication and routing.
 */
export class Refusals {
  private readonly context: Needed;
  private readonly recent = new LRUCache<string, Remembered>({ max: 1_000, ttl: rememberedMs });

  constructor(context: Needed) {
    this.context = context;
  }

  remember(request: FastifyRequest, orgId: number, error: ServiceError): void {
    const key = mapKeyOf(request.raw);
    if (key === undefined) return;
    this.recent.set(key, { orgId, route: request.routeOptions.url ?? 'unknown', body: wireBody(request, toWireError(error)) });
  }

  /** Returns whether it responded. Called ahead of Fastify, whose work before the first hook would cost half as much again. */
  answer(request: IncomingMessage, response: ServerResponse): boolean {
    const refusal = this.refuse(request);
    if (refusal === undefined) return false;
    response.writeHead(503, refusal.headers).end(refusal.body);
    return true;
  }

  /** The refusal of this request, counted and logged, if the same was refused just now and there still is no room for it. */
  refuse(asked: Asked): Refusal | undefined {
    const key = this.recent.size === 0 ? undefined : mapKeyOf(asked);
    const known = key === undefined ? undefined : this.recent.get(key);
    if (known === undefined) return undefined;
    const { rateLimit, waitingRoom, metrics, logger } = this.context;
    const { orgId, route, body } = known;
    if (!waitingRoom.isClosedTo(orgId)) return undefined;
    try {
      rateLimit.take(orgId);
    } catch {
      // Over its rate limit: left to the server, which refuses it with 429.
      return undefined;
    }
    const requestId = newId('rid_');
    const { method = '' } = asked;
    metrics.requestEnded(route, method, 503, 0);
    if (logger.isLevelEnabled('info')) {
      logger.info({ request_id: requestId, org_id: orgId, method, route, status: 503, ms: 0 }, 'request');
    }
    return {
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'content-length': Buffer.byteLength(body),
        'retry-after': waitingRoom.refusalOf(orgId)?.retryAfterSeconds ?? 1,
        'x-request-id': requestId,
        'x-should-retry': 'true',
      },
      body,
    };
  }
}

/** Who asks for what. Undefined for a browser, whose response needs CORS headers as well. */
function mapKeyOf({ method, url, headers }: Asked): string | undefined {
  const { authorization, origin, host } = headers;
  return authorization === undefined || origin !== undefined ? undefined : `${method} ${host} ${url} ${authorization}`;
}
