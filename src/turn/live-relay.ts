import { type Bus, maxNoticeBytes } from '../database/bus.ts';
import type { LiveFragment } from '../session/events.ts';

/** How long a notice that somebody watches holds; it is sent again every 5 s while they do. */
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
  private readonly draftsOf: (sessionId: string) => LiveFragment[];
  private readonly seqOf: (sessionId: string) => number;
  /** Sessions that are watched elsewhere, and until when that holds. */
  private readonly watched = new Map<string, number>();
  /** Sessions that somebody elsewhere has just begun to watch. */
  private readonly joined = new Set<string>();
  private readonly gathered = new Map<string, Gathered>();
  /** The last notice of each session while it is on its way. */
  private readonly sending = new Map<string, Promise<void>>();

  constructor(bus: Bus, processId: string, draftsOf: (sessionId: string) => LiveFragment[], seqOf: (sessionId: string) => number) {
    this.bus = bus;
    this.processId = processId;
    this.draftsOf = draftsOf;
    this.seqOf = seqOf;
  }

  /** Somebody elsewhere watches. */
  watch(sessionId: string): void {
    this.watched.set(sessionId, performance.now() + watchLastsMs);
  }

  /** Somebody elsewhere begins to watch what runs here: they are sent what is being written from its first word on. */
  join(sessionId: string): void {
    this.watch(sessionId);
    this.joined.add(sessionId);
    this.gather(sessionId);
  }

  isWatched(sessionId: string): boolean {
    return this.watched.has(sessionId);
  }

  forgetWatchers(): void {
    const now = performance.now();
    for (const [sessionId, until] of this.watched) if (until < now) this.watched.delete(sessionId);
  }

  show(sessionId: string, fragment: LiveFragment): void {
    if (this.isWatched(sessionId)) this.gather(sessionId).push(fragment);
  }

  /** Sends what was gathered now. */
  flush(sessionId: string): Promise<void> | undefined {
    const waiting = this.gathered.get(sessionId);
    if (waiting === undefined) return undefined;
    this.gathered.delete(sessionId);
    clearTimeout(waiting.timer);
    // A draft too long for a notice is not previewed to whoever joins: the stored message brings it whole.
    const whole = this.joined.delete(sessionId) ? this.draftsOf(sessionId) : [];
    const sent = this.send(sessionId, whole) ?? this.sendPieces(sessionId, merged(waiting.fragments));
    if (sent === undefined) return undefined;
    this.sending.set(sessionId, sent);
    return sent.then(() => {
      if (this.sending.get(sessionId) === sent) this.sending.delete(sessionId);
    });
  }

  /** Not before the notice ahead of it has gone: behind a database that hangs, turns would have to wait for all that piled up. */
  private async flushNext(sessionId: string): Promise<void> {
    await this.sending.get(sessionId);
    await this.flush(sessionId);
  }

  private gather(sessionId: string): LiveFragment[] {
    const waiting = this.gathered.get(sessionId) ?? { fragments: [], timer: setTimeout(() => void this.flushNext(sessionId), gatherMs) };
    this.gathered.set(sessionId, waiting);
    return waiting.fragments;
  }

  /** In as many notices as it takes: whoever has seen the beginning is to see the rest. */
  private sendPieces(session: string, fragments: LiveFragment[]): Promise<void> | undefined {
    const sent = this.send(session, fragments);
    if (sent !== undefined) return sent;
    const [first, second] = halvesOf(fragments);
    if (first.length === 0) return undefined;
    this.sendPieces(session, first);
    return this.sendPieces(session, second);
  }

  /** Undefined where there is nothing to send, or too much for a notice. */
  private send(session: string, fragments: LiveFragment[]): Promise<void> | undefined {
    if (fragments.length === 0) return undefined;
    const text = JSON.stringify({ session, after: this.seqOf(session), fragments });
    return Buffer.byteLength(text) <= maxNoticeBytes ? this.bus.send(`${this.processId} live ${text}`) : undefined;
  }
}

function halvesOf(fragments: LiveFragment[]): [LiveFragment[], LiveFragment[]] {
  const [only, ...others] = fragments;
  if (only === undefined || others.length > 0) {
    const middle = Math.floor(fragments.length / 2);
    return [fragments.slice(0, middle), fragments.slice(middle)];
  }
  const { text, offset } = only;
  const half = Math.floor(text.length / 2);
  // Not between the two units of one character.
  const middle = text.slice(0, half).isWellFormed() ? half : half - 1;
  if (middle < 1) return [[], []];
  return [[{ ...only, text: text.slice(0, middle) }], [{ ...only, offset: offset + middle, text: text.slice(middle) }]];
}

/**
 * What the relay of another process sent. `after` is the seq of the last stored event before this text: whoever has not seen
 * that event, because its notice was lost, reads it first. A process of the version before this one leaves it out.
 */
export function parseLive(text: string): { session: string; after?: number; fragments: LiveFragment[] } {
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
