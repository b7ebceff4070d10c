import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { ChangedOrg } from '../../../accounts/org-cache.ts';
import type { Context } from '../../../context.ts';
import { bearerOf, principalOf, principalOfSecret } from '../caller/authenticate.ts';

/** Why the server ends a stream that its client still reads. */
export type ClosingReason = 'token_expired' | 'credential_revoked' | 'session_deleted' | 'server_shutdown' | 'database_unavailable';

export interface EndableStream {
  readonly response: ServerResponse;
  end(reason: ClosingReason): void;
}

/** The credential and the agent that streams were opened with. All streams that have both in common share one object. */
interface Credential {
  /** An API key, a session token, or the cookie of a member. */
  secret: string;
  isCookie: boolean;
  orgId: number;
  orgSlug: string;
  /** The agent that the path names; undefined on routes that name none. */
  agentId: number | undefined;
  /** When its streams are ended: `graceMs` after a token expires, never for keys and cookies. */
  endsAt: number;
  /** Whether members could read what end users say when one of the streams was opened. If that is turned off, a member's streams end. */
  hadTranscripts: boolean;
  streams: Set<EndableStream>;
}

const graceMs = 60_000;
const heartbeatSeconds = 15;

/**
 * The open event streams of this process. One timer serves them all: it sends each a comment every 15 s to keep it alive, and
 * ends those whose token has expired. It also ends streams whose key was revoked, whose member was removed or whose agent was
 * deleted, in whichever process that happened.
 */
export class OpenStreams {
  /** Streams and other answers that were cut because their client stopped reading. */
  stalledCount = 0;
  private readonly context: Context;
  private readonly credentials = new Map<string, Credential>();
  /** The streams that get their heartbeat in the same second: spread out, so that not all are written to at once. */
  private readonly heartbeats = Array.from({ length: heartbeatSeconds }, () => new Set<EndableStream>());
  private readonly stopListening: () => void;
  /** What changed since its streams were last checked. */
  private readonly changed = new Set<ChangedOrg>();
  private isChecking = false;
  /** Credentials that were not looked at since a stream was opened with them, or about which the database could not be asked. */
  private readonly unchecked = new Set<Credential>();
  private timer: NodeJS.Timeout | undefined;
  private second = 0;
  private addedCount = 0;

  constructor(context: Context) {
    this.context = context;
    this.stopListening = context.directory.onChange((changed) => {
      this.changed.add(changed);
      void this.recheckChanged();
    });
  }

  get stallMs(): number {
    return this.context.config.PARLEY_STREAM_STALL_MS;
  }

  get size(): number {
    return this.heartbeats.reduce((sum, streams) => sum + streams.size, 0);
  }

  /** Returns the function to call when the stream has ended. */
  add(stream: EndableStream, request: FastifyRequest): () => void {
    const credential = this.credentialOf(request);
    const heartbeat = this.heartbeats[this.addedCount % heartbeatSeconds];
    this.addedCount += 1;
    credential.streams.add(stream);
    this.unchecked.add(credential);
    heartbeat?.add(stream);
    this.timer ??= setInterval(() => this.tick(), 1_000);
    return () => {
      heartbeat?.delete(stream);
      credential.streams.delete(stream);
      if (credential.streams.size > 0) return;
      this.credentials.delete(mapKeyOf(credential));
      this.unchecked.delete(credential);
      if (this.credentials.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  }

  /** Disconnects a client that has stopped reading. */
  cut(socket: Socket | null): void {
    // For a stream, two clocks run out at about the same time: the socket's, and that of the wait for it.
    if (socket?.destroyed) return;
    this.stalledCount += 1;
    // A reset, because after an orderly close the kernel would hold the unread bytes, some MiB, for minutes.
    socket?.resetAndDestroy();
  }

  /** Ends every stream. Clients reconnect from where they were, to another process or to this one after its restart. */
  close(): void {
    this.stopListening();
    for (const credential of this.credentials.values()) endAll(credential, 'server_shutdown');
  }

  private credentialOf(request: FastifyRequest): Credential {
    const principal = principalOf(request);
    const isCookie = principal.type === 'member';
    const fresh: Credential = {
      secret: (isCookie ? request.headers.cookie : bearerOf(request)) ?? '',
      isCookie,
      orgId: principal.organization.id,
      orgSlug: principal.organization.slug,
      agentId: request.agent?.id,
      endsAt: principal.type === 'token' ? principal.expiresAt.getTime() + graceMs : Number.POSITIVE_INFINITY,
      hadTranscripts: principal.organization.transcriptsAccess,
      streams: new Set(),
    };
    const credential = this.credentials.get(mapKeyOf(fresh)) ?? fresh;
    credential.hadTranscripts ||= fresh.hadTranscripts;
    this.credentials.set(mapKeyOf(credential), credential);
    return credential;
  }

  private tick(): void {
    const now = this.context.clock.now().getTime();
    for (const credential of this.credentials.values()) if (credential.endsAt <= now) endAll(credential, 'token_expired');
    this.second = (this.second + 1) % heartbeatSeconds;
    // No change is announced when a member signs out, nor to a stream that is just being opened when its key is revoked. Session
    // tokens are many: only those that may have missed a change are looked at.
    const isDue = (credential: Credential) => credential.endsAt === Number.POSITIVE_INFINITY || this.unchecked.has(credential);
    if (this.second === 0) void this.recheck(isDue);
    for (const { response } of this.heartbeats[this.second] ?? []) {
      // To a client that has not read what was sent before, heartbeats would only pile up.
      if (response.writableLength === 0) response.write(': keep-alive\n\n');
    }
  }

  /** Changes that come in quick succession are checked together: thousands of streams for each would block the process. */
  private async recheckChanged(): Promise<void> {
    if (this.isChecking) return;
    this.isChecking = true;
    try {
      // The loop also visits what is added while it runs: an org that changes during its check is checked again.
      for (const changed of this.changed) {
        this.changed.delete(changed);
        await this.recheck(({ orgId }) => changed === 'all' || orgId === changed);
      }
    } finally {
      this.isChecking = false;
    }
  }

  /** Ends the streams of these credentials that could not be opened any more. */
  private async recheck(isConcerned: (credential: Credential) => boolean): Promise<void> {
    for (const credential of [...this.credentials.values()].filter(isConcerned)) {
      this.unchecked.delete(credential);
      if (!(await this.trueIfUnknown(credential, this.isValid(credential)))) endAll(credential, 'credential_revoked');
      else if (!(await this.trueIfUnknown(credential, this.hasAgent(credential)))) endAll(credential, 'session_deleted');
    }
  }

  private async isValid({ secret, isCookie, orgSlug, endsAt, hadTranscripts }: Credential): Promise<boolean> {
    const principal = isCookie
      ? (await this.context.signIn.memberOf(new Headers({ cookie: secret }), orgSlug))?.principal
      : await principalOfSecret(this.context, secret);
    if (principal !== undefined) {
      const { status, transcriptsAccess } = principal.organization;
      // A stream of a session in the playground, which stays open to members, is opened again by its reader.
      return status === 'active' && (!isCookie || !hadTranscripts || transcriptsAccess);
    }
    // An expired token no longer stands for anybody, but its streams stay until `endsAt`.
    return endsAt - graceMs <= this.context.clock.now().getTime();
  }

  private async hasAgent({ orgId, agentId }: Credential): Promise<boolean> {
    return agentId === undefined || (await this.context.directory.agentById(orgId, agentId)) !== undefined;
  }

  /** A check that fails, because the database is not reachable, ends no stream: it is made again later. */
  private async trueIfUnknown(credential: Credential, check: Promise<boolean>): Promise<boolean> {
    try {
      return await check;
    } catch (error) {
      if (credential.streams.size > 0) this.unchecked.add(credential);
      this.context.logger.warn({ err: error }, 'could not check open streams');
      return true;
    }
  }
}

/** With the org, because a person with one cookie may be a member of several. */
function mapKeyOf({ secret, orgId, agentId }: Credential): string {
  return `${orgId} ${agentId} ${secret}`;
}

function endAll({ streams }: Credential, reason: ClosingReason): void {
  for (const stream of [...streams]) stream.end(reason);
}
