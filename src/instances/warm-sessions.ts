import { LRUCache } from 'lru-cache';
import { errorMessage } from '../errors.ts';

export type WarmState = { status: 'warming' } | { status: 'ready' } | { status: 'error'; message: string };

export interface Warming {
  state: WarmState;
  /** Resolves when it has ended, either way. */
  done: Promise<void>;
}

/** How long after its warming a session still counts as warm: what it loaded is kept about as long when unused. */
const warmMs = 300_000;

/** Which sessions this process is ready for. Warming is best effort: a turn never waits for it, and a failure is tried again. */
export class WarmSessions {
  private readonly load: (orgId: number, sessionId: string) => Promise<void>;
  private readonly sessions = new LRUCache<string, Warming>({ max: 20_000, ttl: warmMs });

  constructor(load: (orgId: number, sessionId: string) => Promise<void>) {
    this.load = load;
  }

  /** Undefined: cold. */
  of(sessionId: string): Warming | undefined {
    return this.sessions.get(sessionId);
  }

  /** What it loaded was let go of: the session is cold again. */
  forget(sessionId: string): void {
    this.sessions.delete(sessionId);
  }

  /** Begins warming a session that is cold or failed to warm; one that is warm, or on its way, is left alone. */
  begin(orgId: number, sessionId: string): Warming {
    const known = this.of(sessionId);
    if (known !== undefined && known.state.status !== 'error') return known;
    const warming: Warming = { state: { status: 'warming' }, done: Promise.resolve() };
    warming.done = this.load(orgId, sessionId).then(
      () => {
        warming.state = { status: 'ready' };
      },
      (error: unknown) => {
        warming.state = { status: 'error', message: errorMessage(error) };
      },
    );
    this.sessions.set(sessionId, warming);
    return warming;
  }
}
