import { LRUCache } from 'lru-cache';
import type { Entry, SessionState } from '../session/state.ts';

interface Kept {
  readonly state: SessionState;
  /** The list that was counted, how much of it, and what it came to. */
  readonly entries: readonly Entry[];
  readonly counted: number;
  readonly bytes: number;
}

export interface Bounds {
  sessions: number;
  bytes: number;
}

/** Besides the text of its entries; measured 650 and 100 with none of their optional fields. */
const bytesOfState = 1_000;
const bytesOfEntry = 200;

/**
 * The folds of sessions that ran here lately, so that a turn costs the same however long its session is. Bounded by what
 * they hold in memory: a fold grows in place, so whoever added to one keeps it again, and only what was added is counted.
 */
export class RecentStates {
  private readonly kept: LRUCache<string, Kept>;

  constructor(bounds: Bounds = { sessions: 5_000, bytes: 128 * 2 ** 20 }) {
    this.kept = new LRUCache({ max: bounds.sessions, maxSize: bounds.bytes, sizeCalculation: ({ bytes }) => bytes });
  }

  /** About what all of them hold. */
  get bytes(): number {
    return this.kept.calculatedSize;
  }

  has(sessionId: string): boolean {
    return this.kept.has(sessionId);
  }

  get(sessionId: string): SessionState | undefined {
    return this.kept.get(sessionId)?.state;
  }

  keep(sessionId: string, state: SessionState): void {
    const known = this.kept.peek(sessionId);
    // Condensing leaves another list behind: that one is counted from its beginning.
    const { counted, bytes } = known?.entries === state.entries ? known : { counted: 0, bytes: bytesOfState };
    let sum = bytes;
    for (let index = counted; index < state.entries.length; index += 1) sum += bytesOf(state.entries[index]);
    // A new object each time, because the cache asks for the size of an object only once.
    this.kept.set(sessionId, { state, entries: state.entries, counted: state.entries.length, bytes: sum });
  }

  /** Counts what a turn has added to a fold that is kept. One that was dropped meanwhile stays dropped: it may be outdated. */
  keepStill(sessionId: string, state: SessionState): void {
    if (this.kept.peek(sessionId)?.state === state) this.keep(sessionId, state);
  }

  drop(sessionId: string): void {
    this.kept.delete(sessionId);
  }
}

/** At most two bytes a character. */
function bytesOf(entry: Entry | undefined): number {
  return entry === undefined ? 0 : bytesOfEntry + 2 * charactersOf(entry);
}

function charactersOf(entry: Entry): number {
  switch (entry.type) {
    case 'user': {
      const { text, context = [], files = [], echo } = entry.message;
      const earlier = context.reduce((sum, message) => sum + message.text.length, 0);
      return text.length + earlier + files.join('').length + jsonLength(echo);
    }
    case 'text':
      return entry.text.length;
    case 'reasoning':
      return entry.text.length + jsonLength(entry.providerMetadata);
    case 'call':
      return jsonLength(entry.input) + jsonLength(entry.providerMetadata);
    case 'result':
      return entry.output.length;
  }
}

function jsonLength(value: unknown): number {
  return value === undefined ? 0 : JSON.stringify(value).length;
}
