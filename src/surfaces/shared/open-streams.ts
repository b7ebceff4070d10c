import type { ServerResponse } from 'node:http';
import type { Principal } from '../../accounts/principal.ts';
import type { Context } from '../../context.ts';
import { principalOfSecret } from './authenticate.ts';

/** Why the server ends a stream that its client still reads. */
export type ClosingReason = 'token_expired' | 'credential_revoked' | 'server_shutdown';

interface OpenStream {
  response: ServerResponse;
  orgId: number;
  /** What the client signed in with; absent for a member with a cookie. */
  secret: string | undefined;
  /** When the token has run out and its grace is over. */
  endsAt: number;
  /** In which second of the heartbeat's round it is its turn. */
  slot: number;
  end(reason: ClosingReason): void;
}

const graceMs = 60_000;
const heartbeatSeconds = 15;

/**
 * Every stream that is open, so that one timer serves them all: it keeps each alive with a comment every 15 s, ends those
 * whose token ran out, and ends those whose key was revoked, by whichever process.
 */
export class OpenStreams {
  private readonly context: Context;
  private readonly streams = new Set<OpenStream>();
  private readonly stopListening: () => void;
  private timer: NodeJS.Timeout | undefined;
  private second = 0;
  private count = 0;

  constructor(context: Context) {
    this.context = context;
    this.stopListening = context.directory.onChange((change) => void this.recheck(change));
  }

  get stalledMs(): number {
    return this.context.config.PARLEY_STREAM_STALL_MS;
  }

  get size(): number {
    return this.streams.size;
  }

  /** Call what it returns when the stream is over. */
  add(response: ServerResponse, principal: Principal, secret: string | undefined, end: (reason: ClosingReason) => void): () => void {
    const endsAt = principal.type === 'token' ? principal.expiresAt.getTime() + graceMs : Number.POSITIVE_INFINITY;
    this.count += 1;
    const stream = { response, orgId: principal.organization.id, secret, endsAt, slot: this.count % heartbeatSeconds, end };
    this.streams.add(stream);
    this.timer ??= setInterval(() => this.tick(), 1_000);
    return () => {
      this.streams.delete(stream);
      if (this.streams.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  }

  /** Ends every stream: clients come back with their cursors, to another process or the next start. */
  close(): void {
    this.stopListening();
    for (const stream of this.streams) stream.end('server_shutdown');
  }

  private tick(): void {
    this.second = (this.second + 1) % heartbeatSeconds;
    const now = this.context.clock.now().getTime();
    for (const { slot, response, endsAt, end } of this.streams) {
      if (endsAt <= now) end('token_expired');
      // A reader that has not taken what came before needs no sign of life.
      else if (slot === this.second && response.writableLength === 0) response.write(': keep-alive\n\n');
    }
  }

  /** Something of an org changed: its streams go on if whoever opened them could open them again. */
  private async recheck(change: string): Promise<void> {
    const affected = [...this.streams].filter((stream) => change === '*' || stream.orgId === Number(change));
    for (const [secret, streams] of Map.groupBy(affected, (stream) => stream.secret)) {
      if (secret === undefined || (await this.isWelcome(secret, streams))) continue;
      for (const stream of streams) stream.end('credential_revoked');
    }
  }

  private async isWelcome(secret: string, streams: OpenStream[]): Promise<boolean> {
    try {
      const principal = await principalOfSecret(this.context, secret);
      if (principal !== undefined) return principal.organization.status === 'active';
      // A token in its grace is nobody's any more, but was not revoked.
      return streams.every(
        (stream) => stream.endsAt !== Number.POSITIVE_INFINITY && stream.endsAt - graceMs < this.context.clock.now().getTime(),
      );
    } catch (error) {
      this.context.logger.warn({ err: error }, 'open streams were not checked');
      return true;
    }
  }
}
