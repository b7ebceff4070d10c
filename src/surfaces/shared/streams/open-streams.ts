import type { ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { Context } from '../../../context.ts';
import { bearerOf, principalOf, principalOfSecret } from '../caller/authenticate.ts';

/** Why the server ends a stream that its client still reads. */
export type ClosingReason = 'token_expired' | 'credential_revoked' | 'session_deleted' | 'server_shutdown' | 'database_unavailable';

export interface EndableStream {
  readonly response: ServerResponse;
  end(reason: ClosingReason): void;
}

/** What streams were opened with; those of one credential and agent share it. */
interface Credential {
  /** A key or token, or the cookie of a member. */
  secret: string;
  isCookie: boolean;
  orgId: number;
  orgSlug: string;
  /** The agent that the path named. */
  agentId: number | undefined;
  /** When the token has run out and its grace is over. */
  endsAt: number;
  streams: Set<EndableStream>;
}

const graceMs = 60_000;
const heartbeatSeconds = 15;

/**
 * Every stream that is open, so that one timer serves them all: it keeps each alive with a comment every 15 s, ends those
 * whose token ran out, and ends those whose key was revoked, whose member removed or whose agent deleted, by whichever process.
 */
export class OpenStreams {
  /** How many were cut because their reader took nothing. */
  cut = 0;
  private readonly context: Context;
  private readonly credentials = new Map<string, Credential>();
  /** Which streams are spoken to in each second of the round. */
  private readonly rounds = Array.from({ length: heartbeatSeconds }, () => new Set<EndableStream>());
  private readonly stopListening: () => void;
  /** Organizations (their ids, or `*`) that changed since their streams were last looked at. */
  private readonly changed = new Set<string>();
  private isChecking = false;
  private timer: NodeJS.Timeout | undefined;
  private second = 0;
  private added = 0;

  constructor(context: Context) {
    this.context = context;
    this.stopListening = context.directory.onChange((change) => {
      this.changed.add(change);
      void this.recheckChanged();
    });
  }

  get stalledMs(): number {
    return this.context.config.PARLEY_STREAM_STALL_MS;
  }

  get size(): number {
    return this.rounds.reduce((sum, round) => sum + round.size, 0);
  }

  /** Call what it returns when the stream is over. */
  add(stream: EndableStream, request: FastifyRequest): () => void {
    const credential = this.credentialOf(request);
    const round = this.rounds[this.added % heartbeatSeconds];
    this.added += 1;
    credential.streams.add(stream);
    round?.add(stream);
    this.timer ??= setInterval(() => this.tick(), 1_000);
    return () => {
      round?.delete(stream);
      credential.streams.delete(stream);
      if (credential.streams.size > 0) return;
      this.credentials.delete(nameOf(credential));
      if (this.credentials.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  }

  /** Ends every stream: clients come back with their cursors, to another process or the next start. */
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
      streams: new Set(),
    };
    const credential = this.credentials.get(nameOf(fresh)) ?? fresh;
    this.credentials.set(nameOf(credential), credential);
    return credential;
  }

  private tick(): void {
    const now = this.context.clock.now().getTime();
    for (const credential of this.credentials.values()) if (credential.endsAt <= now) endAll(credential, 'token_expired');
    this.second = (this.second + 1) % heartbeatSeconds;
    // No notice comes when a member signs out, or of a key that was revoked while its stream began: these are looked for.
    if (this.second === 0) void this.recheck('*', ({ endsAt }) => endsAt === Number.POSITIVE_INFINITY);
    for (const { response } of this.rounds[this.second] ?? []) {
      // A reader that has not taken what came before needs no sign of life.
      if (response.writableLength === 0) response.write(': keep-alive\n\n');
    }
  }

  /** Once for changes that come together: to look at thousands of streams for each of them would take all of the process. */
  private async recheckChanged(): Promise<void> {
    if (this.isChecking) return;
    this.isChecking = true;
    try {
      // One that comes while its streams are looked at is added behind, and they are looked at again.
      for (const change of this.changed) {
        this.changed.delete(change);
        await this.recheck(change);
      }
    } finally {
      this.isChecking = false;
    }
  }

  /** Something of an org changed: its streams go on if whoever opened them could open them again. */
  private async recheck(change: string, concerns: (credential: Credential) => boolean = () => true): Promise<void> {
    for (const credential of [...this.credentials.values()].filter(concerns)) {
      if (change !== '*' && credential.orgId !== Number(change)) continue;
      if (!(await this.isWelcome(credential))) endAll(credential, 'credential_revoked');
      else if (!(await this.hasAgent(credential))) endAll(credential, 'session_deleted');
    }
  }

  private async isWelcome({ secret, isCookie, orgSlug, endsAt }: Credential): Promise<boolean> {
    try {
      const principal = isCookie
        ? (await this.context.signIn.memberOf(new Headers({ cookie: secret }), orgSlug))?.principal
        : await principalOfSecret(this.context, secret);
      if (principal !== undefined) return principal.organization.status === 'active';
      // A token in its grace is nobody's any more, but was not revoked.
      return endsAt - graceMs <= this.context.clock.now().getTime();
    } catch (error) {
      this.context.logger.warn({ err: error }, 'could not check open streams');
      return true;
    }
  }

  private async hasAgent({ orgId, agentId }: Credential): Promise<boolean> {
    try {
      return agentId === undefined || (await this.context.directory.agentById(orgId, agentId)) !== undefined;
    } catch (error) {
      this.context.logger.warn({ err: error }, 'could not check open streams');
      return true;
    }
  }
}

/** A person may be a member of several orgs with one cookie. */
function nameOf({ secret, orgId, agentId }: Credential): string {
  return `${orgId} ${agentId} ${secret}`;
}

function endAll({ streams }: Credential, reason: ClosingReason): void {
  for (const stream of [...streams]) stream.end(reason);
}
