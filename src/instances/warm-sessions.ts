import { LRUCache } from 'lru-cache';
import { errorMessage } from '../errors.ts';

export type WarmState = { status: 'warming' } | { status: 'ready' } | { status: 'error'; message: string };

interface Warming {
  state: WarmState;
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

  /** Begins warming a session that is cold or failed to warm; one that is warm, or on its way, is left alone. */
  begin(orgId: number, sessionId: string): void {
    const known = this.sessions.get(sessionId);
    if (known !== undefined && known.state.status !== 'error') return;
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
  }

  /** Undefined: cold. */
  stateOf(sessionId: string): WarmState | undefined {
    return this.sessions.get(sessionId)?.state;
  }

  /** Resolves when the session's warming has ended, either way. */
  async settled(sessionId: string): Promise<void> {
    await this.sessions.get(sessionId)?.done;
  }
}
