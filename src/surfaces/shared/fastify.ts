import type { IncomingMessage, ServerResponse } from 'node:http';
import type {} from '@fastify/swagger';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, onRequestAsyncHookHandler, RawServerDefault } from 'fastify';
import type { Agent } from '../../accounts/agents.ts';
import type { Principal } from '../../accounts/principal.ts';
import type { Place } from '../../load/waiting-room.ts';
import type { Session } from '../../session/sessions.ts';
import type { WireError } from './errors.ts';
import type { Refusals } from './server/refusals.ts';
import type { OpenStreams } from './streams/open-streams.ts';

/** The server that routes are added to: their schemas give the handlers their types. */
export type Server = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

/** Which of the three hosts a route belongs to. Without configured hosts, all routes are on one. */
export type RouteFamily = 'base' | 'agent' | 'management';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A route without one is on every host. */
    family?: RouteFamily | RouteFamily[];
    /** The kind of error for a bad body: 422 unless the surface sets 400. */
    badBody?: 'invalid' | 'bad-request';
    /** The error body of a surface with a shape of its own. */
    errorBody?: (error: WireError) => unknown;
    /** The route takes the session from `X-Svc-Session`, and refuses one that the caller cannot see. Others ignore this header. */
    sessionInHeader?: boolean;
    /** What the route checks before the body is read: its `onRequest` hooks. */
    checks?: onRequestAsyncHookHandler[];
  }
  interface FastifyInstance {
    /** The open event streams of this server. */
    streams: OpenStreams;
    /** Recent refusals because of overload. */
    refusals: Refusals;
  }
  interface FastifyRequest {
    /** The body as it was sent; fingerprints are made from it. */
    rawBody: string;
    /** Who calls; set by the authentication hook of every route that is not public. */
    principal: Principal | undefined;
    /** Held while the request is processed. Left while it waits for its body, a turn or another server, and when it is answered. */
    place: Place | undefined;
    /** When it was last known who calls and what they may do. */
    checkedAt: number | undefined;
    /** The turn that this request, or an earlier copy of it, started. */
    turn: { sessionId: string; turnId: string } | undefined;
    /** The agent that the path names, for routes below /{org}/{agent}. */
    agent: Agent | undefined;
    /** The session that the request is about, once it is known that the caller can see it. */
    session: Session | undefined;
  }
}
