import { type Bus, maxNoticeBytes } from '../database/bus.ts';
import type { LiveFragment } from '../session/events.ts';

/** How long a word that somebody watches holds; it is given again every 5 s while they do. */
const watchLastsMs = 12_000;
/** Text is gathered for this long before it is sent. */
const gatherMs = 30;

interface Gathered {
  fragments: LiveFragment[];
  timer: NodeJS.Timeout;
}

/** Brings the text of turns that run here to the processes in which someone watches them. */
export class LiveRelay {
  private readonly bus: Bus;
  private readonly processId: string;
  /** Sessions that are watched elsewhere, and until when that holds. */
  private readonly watched = new Map<string, number>();
  private readonly gathered = new Map<string, Gathered>();

  constructor(bus: Bus, processId: string) {
    this.bus = bus;
    this.processId = processId;
  }

  /** Somebody elsewhere watches. True when nobody did: they have not been shown what was written before. */
  watch(sessionId: string): boolean {
    const isNew = !this.watched.has(sessionId);
    this.watched.set(sessionId, Date.now() + watchLastsMs);
    return isNew;
  }

  isWatched(sessionId: string): boolean {
    return this.watched.has(sessionId);
  }

  forgetWatchers(): void {
    const now = Date.now();
    for (const [sessionId, until] of this.watched) if (until < now) this.watched.delete(sessionId);
  }

  show(sessionId: string, fragment: LiveFragment): void {
    if (!this.isWatched(sessionId)) return;
    const waiting = this.gathered.get(sessionId);
    if (waiting !== undefined) waiting.fragments.push(fragment);
    else this.gathered.set(sessionId, { fragments: [fragment], timer: setTimeout(() => void this.flush(sessionId), gatherMs) });
  }

  /** Sends what was gathered now. */
  flush(sessionId: string): Promise<void> | undefined {
    const waiting = this.gathered.get(sessionId);
    if (waiting === undefined) return undefined;
    this.gathered.delete(sessionId);
    clearTimeout(waiting.timer);
    const text = JSON.stringify({ session: sessionId, fragments: merged(waiting.fragments) });
    // Text too long for a notice is not previewed: the stored message brings it whole.
    return Buffer.byteLength(text) <= maxNoticeBytes ? this.bus.send(`${this.processId} live ${text}`) : undefined;
  }
}

/** What another process's relay sent: its notices are written by this program only. */
export function parseLive(text: string): { session: string; fragments: LiveFragment[] } {
  return JSON.parse(text);
}

/** Neighbouring pieces of one message become one. */
function merged(fragments: LiveFragment[]): LiveFragment[] {
  const result: LiveFragment[] = [];
  for (const fragment of fragments) {
    const last = result.at(-1);
    if (last?.type === fragment.type && last.messageId === fragment.messageId)
      result[result.length - 1] = { ...last, text: last.text + fragment.text };
    else result.push(fragment);
  }
  return result;
}
