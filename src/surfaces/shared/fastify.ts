import type { IncomingMessage, ServerResponse } from 'node:http';
import type {} from '@fastify/swagger';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { Agent } from '../../accounts/agents.ts';
import type { Principal } from '../../accounts/principal.ts';
import type { Place } from '../../load/waiting-room.ts';
import type { Session } from '../../session/sessions.ts';
import type { WireError } from './errors.ts';
import type { Refusals } from './server/refusals.ts';
import type { OpenStreams } from './streams/open-streams.ts';

/** The server as routes see it: schemas give handlers their types. */
export type Server = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

/** Which of the three hosts a route belongs to; with none configured, all are one. */
export type RouteFamily = 'base' | 'agent' | 'management' | 'any';

declare module 'fastify' {
  interface FastifyContextConfig {
    family?: RouteFamily | RouteFamily[];
    /** The kind of error that a bad body is here: 422 unless the surface says 400. */
    badBody?: 'invalid' | 'bad-request';
    /** The error body of a surface with a shape of its own. */
    errorBody?: (error: WireError) => unknown;
  }
  interface FastifyInstance {
    /** The streams that clients of this server follow. */
    streams: OpenStreams;
    /** What callers were told lately for whom there was no room. */
    refusals: Refusals;
  }
  interface FastifyRequest {
    /** The body as it was sent; fingerprints are made of it. */
    rawBody: string;
    /** Who calls; set by the authentication hook of every route but the public ones. */
    principal: Principal | undefined;
    /** Held while the request is worked on; left when it begins to wait for a turn or another server, or else with its answer. */
    place: Place | undefined;
    /** The turn that it started, or that an earlier copy of it did. */
    turn: { sessionId: string; turnId: string } | undefined;
    /** The agent that the path names, for routes below /{org}/{agent}. */
    agent: Agent | undefined;
    /** The session that the request is about, once the caller was found to see it. */
    session: Session | undefined;
  }
}
