import { type Bus, maxNoticeBytes } from '../database/bus.ts';
import type { LiveFragment } from '../session/events.ts';
import type { Feed } from '../session/feed.ts';
import type { RecentStates } from './recent-states.ts';

/** How long a session counts as watched after a notice that it is; a process with watchers repeats the notice every 5 s. */
const watchLastsMs = 12_000;
/** Live text is gathered for this long, then sent in one notice. */
const gatherMs = 30;

/** How the runner of a turn reaches those who watch it in other processes. */
interface WatchersElsewhere {
  isWatched(sessionId: string): boolean;
  show(sessionId: string, fragment: LiveFragment): void;
  /** Called before events are stored: these watchers must get the live text that precedes them first. */
  flush(sessionId: string): Promise<void> | undefined;
}

/** For as long as the other processes are not joined. */
export const nobodyElsewhere: WatchersElsewhere = { isWatched: () => false, show() {}, flush: () => undefined };

interface Gathered {
  fragments: LiveFragment[];
  timer: NodeJS.Timeout;
}

/** Sends the live text of turns that run here to the processes in which clients watch them. */
export class LiveRelay implements WatchersElsewhere {
  private readonly bus: Bus;
  private readonly processId: string;
  private readonly feed: Pick<Feed, 'draftsOf'>;
  private readonly states: Pick<RecentStates, 'seqOf'>;
  /** Sessions that are watched in other processes, and until when that counts. */
  private readonly watched = new Map<string, number>();
  /** Sessions with a new watcher, who is to be sent their drafts from the first word on. */
  private readonly joined = new Set<string>();
  private readonly gathered = new Map<string, Gathered>();
  /** The last notice of each session, until it is sent. */
  private readonly sending = new Map<string, Promise<void>>();

  constructor(bus: Bus, processId: string, feed: Pick<Feed, 'draftsOf'>, states: Pick<RecentStates, 'seqOf'>) {
    this.bus = bus;
    this.processId = processId;
    this.feed = feed;
    this.states = states;
  }

  /** Another process has a watcher of this session. */
  watch(sessionId: string): void {
    this.watched.set(sessionId, performance.now() + watchLastsMs);
  }

  /** Another process has a new watcher of a session whose turn runs here. */
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

  /** Sends at once what was gathered. */
  flush(sessionId: string): Promise<void> | undefined {
    const waiting = this.gathered.get(sessionId);
    if (waiting === undefined) return undefined;
    this.gathered.delete(sessionId);
    clearTimeout(waiting.timer);
    // New watchers get no preview of a draft that is too long for a notice. They get the message once it is stored.
    const whole = this.joined.delete(sessionId) ? this.feed.draftsOf(sessionId) : [];
    const sent = this.send(sessionId, whole) ?? this.sendPieces(sessionId, merged(waiting.fragments));
    if (sent === undefined) return undefined;
    this.sending.set(sessionId, sent);
    return sent.then(() => {
      if (this.sending.get(sessionId) === sent) this.sending.delete(sessionId);
    });
  }

  /** Waits for the notice before: while the database hangs, notices would pile up, and turns have to wait for all of them. */
  private async flushNext(sessionId: string): Promise<void> {
    await this.sending.get(sessionId);
    await this.flush(sessionId);
  }

  private gather(sessionId: string): LiveFragment[] {
    const waiting = this.gathered.get(sessionId) ?? { fragments: [], timer: setTimeout(() => void this.flushNext(sessionId), gatherMs) };
    this.gathered.set(sessionId, waiting);
    return waiting.fragments;
  }

  /** In as many notices as it takes: a watcher who has seen the beginning of a message must get the rest without a gap. */
  private sendPieces(session: string, fragments: LiveFragment[]): Promise<void> | undefined {
    const sent = this.send(session, fragments);
    if (sent !== undefined) return sent;
    const [first, second] = halvesOf(fragments);
    if (first.length === 0) return undefined;
    this.sendPieces(session, first);
    return this.sendPieces(session, second);
  }

  /** Undefined if there is nothing to send, or too much for one notice. */
  private send(session: string, fragments: LiveFragment[]): Promise<void> | undefined {
    if (fragments.length === 0) return undefined;
    const text = JSON.stringify({ session, after: this.states.seqOf(session), fragments });
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
  // Not in the middle of a surrogate pair.
  const middle = text.slice(0, half).isWellFormed() ? half : half - 1;
  if (middle < 1) return [[], []];
  return [[{ ...only, text: text.slice(0, middle) }], [{ ...only, offset: offset + middle, text: text.slice(middle) }]];
}

/**
 * What the relay of another process sent. `after` is the seq of the last stored event before this text: a watcher who has not seen
 * that event, because its notice was lost, reads it first. A process of the version before this one leaves `after` out.
 */
export function parseLive(text: string): { session: string; after?: number; fragments: LiveFragment[] } {
  return JSON.parse(text);
}

/** Joins neighbouring fragments of the same message. */
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
