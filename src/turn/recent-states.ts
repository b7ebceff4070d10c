import { LRUCache } from 'lru-cache';
import type { StoredEvent } from '../session/events.ts';
import type { SessionLog } from '../session/log.ts';
import { type Entry, emptyState, foldSession, type SessionState } from '../session/state.ts';
import { growingSum } from '../work/growing-sum.ts';

interface Kept {
  readonly state: SessionState;
  readonly bytes: number;
}

export interface Bounds {
  sessions: number;
  bytes: number;
}

/** Besides the text of the entries. Measured: 650 for a state; up to 110 for an entry without any optional field, and 170 in the prompt. */
const bytesOfState = 1_000;
const bytesOfEntry = 300;

/**
 * The folded states of sessions that ran here recently, so that a turn costs the same however long its session is. Bounded by the
 * memory they take: a state grows in place, so the runner calls `keepGrown` after a turn, and only the new entries are counted.
 */
export class RecentStates {
  private readonly kept: LRUCache<string, Kept>;
  /** The last fold of each session that is under way. If the session is dropped or goes on meanwhile, its state is not kept. */
  private readonly folding = new Map<string, SessionState>();

  constructor(bounds: Bounds = { sessions: 5_000, bytes: 128 * 2 ** 20 }) {
    this.kept = new LRUCache({ max: bounds.sessions, maxSize: bounds.bytes, sizeCalculation: ({ bytes }) => bytes });
  }

  /** Roughly what all states take in memory. */
  get bytes(): number {
    return this.kept.calculatedSize;
  }

  has(sessionId: string): boolean {
    return this.kept.has(sessionId);
  }

  get(sessionId: string): SessionState | undefined {
    return this.kept.get(sessionId)?.state;
  }

  /** The seq of the last event in the session's state; 0 when no state is kept. */
  seqOf(sessionId: string): number {
    return this.get(sessionId)?.seq ?? 0;
  }

  /** Folds the log of a session ahead of its next turn. */
  async warm(log: Pick<SessionLog, 'readToFold'>, sessionId: string): Promise<void> {
    if (!this.has(sessionId) && !this.folding.has(sessionId)) await this.fold(log, sessionId, '', []);
  }

  /** The state of a session ahead of a turn whose newest events are these. */
  async fold(
    log: Pick<SessionLog, 'readToFold'>,
    sessionId: string,
    turnId: string,
    events: readonly StoredEvent[],
  ): Promise<SessionState> {
    const known = this.get(sessionId);
    const next = events[0]?.seq ?? 0;
    const state = known !== undefined && known.seq < next ? known : emptyState();
    // What was written in between is read from the log: the notes of a gateway, or turns that ran in another process.
    if (state.seq === next - 1) {
      foldSession(events, state);
      this.folding.delete(sessionId);
      this.keep(sessionId, state);
      return state;
    }
    this.folding.set(sessionId, state);
    try {
      for await (const page of log.readToFold(sessionId, state.seq, turnId)) foldSession(page, state);
      if (this.folding.get(sessionId) === state) this.keep(sessionId, state);
    } finally {
      if (this.folding.get(sessionId) === state) this.folding.delete(sessionId);
    }
    return state;
  }

  keep(sessionId: string, state: SessionState): void {
    // A new object each time, because the cache computes the size of an object only once.
    this.kept.set(sessionId, { state, bytes: bytesOfState + bytesOfEntries(state.entries) });
  }

  /** Counts what a turn has added to a kept state. One that was dropped meanwhile stays dropped: it may be outdated. */
  keepGrown(sessionId: string, state: SessionState): void {
    if (this.kept.peek(sessionId)?.state === state) this.keep(sessionId, state);
  }

  drop(sessionId: string): void {
    this.kept.delete(sessionId);
    this.folding.delete(sessionId);
  }

  dropAll(): void {
    this.kept.clear();
    this.folding.clear();
  }
}

const bytesOfEntries = growingSum((entry: Entry) => textsOf(entry).reduce((sum, text) => sum + bytesOfText(text), bytesOfEntry));

/** V8 takes one byte a character for a text of ASCII, and for most others two. */
function bytesOfText(text: string): number {
  return Buffer.byteLength(text) === text.length ? text.length : 2 * text.length;
}

function textsOf(entry: Entry): string[] {
  switch (entry.type) {
    case 'user': {
      const { text, context = [], files = [], echo } = entry.message;
      return [text, ...context.map((message) => message.text), ...files, json(echo)];
    }
    case 'text':
      return [entry.text];
    case 'reasoning':
      return [entry.text, json(entry.providerMetadata)];
    case 'call':
      return [json(entry.input), json(entry.providerMetadata)];
    case 'result':
      return [entry.output];
  }
}

function json(value: unknown): string {
  return value === undefined ? '' : JSON.stringify(value);
}
