import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Context } from '../../../context.ts';
import type { ServiceError } from '../../../errors.ts';
import { toWireError, wireBody } from '../errors.ts';

interface Refusal {
  orgId: number;
  body: string;
}

/** No longer, since a key that is revoked must be refused everywhere within a second. */
const rememberedMs = 1_000;

/**
 * In a flood, turning requests away is most of the work. What one was told is what the next of the same caller to the same
 * place is told, without looking up who and where that is, for as long as there is no room for their organization: half the cost.
 */
export class Refusals {
  private readonly context: Pick<Context, 'rateLimit' | 'waitingRoom'>;
  private readonly recent = new LRUCache<string, Refusal>({ max: 1_000, ttl: rememberedMs });

  constructor(context: Pick<Context, 'rateLimit' | 'waitingRoom'>) {
    this.context = context;
  }

  remember(request: FastifyRequest, orgId: number, error: ServiceError): void {
    const name = nameOf(request);
    if (name !== undefined) this.recent.set(name, { orgId, body: wireBody(request, toWireError(error)) });
  }

  /** Comes before everything but the giving of an id. */
  readonly hook: onRequestHookHandler = (request, reply, done) => {
    const name = this.recent.size === 0 ? undefined : nameOf(request);
    const known = name === undefined ? undefined : this.recent.get(name);
    if (known === undefined) return done();
    const { rateLimit, waitingRoom } = this.context;
    if (!waitingRoom.isClosedTo(known.orgId)) return done();
    try {
      rateLimit.take(known.orgId);
    } catch (exceeded) {
      return done(exceeded instanceof Error ? exceeded : undefined);
    }
    // Only now: what is told 429 was not shed.
    const retryAfterSeconds = waitingRoom.refusalOf(known.orgId)?.retryAfterSeconds ?? 1;
    reply.hijack();
    reply.raw.writeHead(503, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(known.body),
      'retry-after': String(retryAfterSeconds),
      'x-request-id': request.id,
      'x-should-retry': 'true',
    });
    reply.raw.end(known.body);
  };
}

/** Who asks for what, as it stands in the request. A browser's answer has more to it than this knows of. */
function nameOf({ method, url, headers }: FastifyRequest): string | undefined {
  const { authorization, origin, host } = headers;
  return authorization === undefined || origin !== undefined ? undefined : `${method} ${host} ${url} ${authorization}`;
}
