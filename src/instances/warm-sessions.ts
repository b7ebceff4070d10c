import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.ts';
import { atMost } from '../work/at-most.ts';

export type WarmState = { status: 'warming' } | { status: 'ready' } | { status: 'error'; message: string };

export interface Warming {
  state: WarmState;
  /** Resolves when it has ended, either way. */
  done: Promise<void>;
  /** Ends it early, while it lasts: otherwise it waits for MCP servers until they answer, or time runs out. */
  ending: AbortController | undefined;
}

type Load = (orgId: number, sessionId: string, signal: AbortSignal) => Promise<void>;

/** How long a session counts as warm: what warming loaded is kept about as long without being used. */
const warmMs = 300_000;

/**
 * The sessions for which this process has loaded what their next turn needs. Warming is optional: a turn never waits for it, and
 * if it failed, the next request tries again.
 */
export class WarmSessions {
  private readonly load: Load;
  private readonly sessions = new LRUCache<string, Warming>({ ...atMost(20_000), ttl: warmMs });

  constructor(load: Load) {
    this.load = load;
  }

  /** Undefined if the session is cold. */
  of(sessionId: string): Warming | undefined {
    return this.sessions.get(sessionId);
  }

  /** When what was loaded has been released: the session is cold again. */
  forget(sessionId: string): void {
    this.of(sessionId)?.ending?.abort();
    this.sessions.delete(sessionId);
  }

  /** Begins warming a session, unless it is warm or being warmed. */
  begin(orgId: number, sessionId: string): Warming {
    const known = this.of(sessionId);
    if (known !== undefined && known.state.status !== 'error') return known;
    const ending = new AbortController();
    const warming: Warming = { state: { status: 'warming' }, done: Promise.resolve(), ending };
    warming.done = this.load(orgId, sessionId, ending.signal)
      .then(
        () => {
          warming.state = { status: 'ready' };
        },
        (error: unknown) => {
          // A browser may read it: no words of the database or of Node.
          const message = error instanceof ServiceError ? error.message : 'The session could not be warmed.';
          warming.state = { status: 'error', message };
        },
      )
      .finally(() => {
        warming.ending = undefined;
      });
    this.sessions.set(sessionId, warming);
    return warming;
  }
}
