import { createParser } from 'eventsource-parser';
import { reportLost, untilReachable, watch, whileReachable } from '../server/connection.ts';
import { checkSignedIn, untilSignedIn } from '../server/queries.ts';
import { ownHeaders, type RequestError, refusal } from '../server/request.ts';
import { type LogEvent, parseFrame } from './log-event.ts';
import { noPreview, previewAfter } from './preview.ts';

export interface StreamState {
  events: readonly LogEvent[];
  /** Text of the message that is being written now. */
  preview: string;
  phase: 'reading' | 'live' | 'lost' | 'refused';
  refusal: RequestError | undefined;
}

/** The server sends a comment every 15 s; a stream this silent is dead, whatever the socket says. */
const silentMs = 40_000;
/** A stream that lasted this long was a good one: what ended it is no reason to wait longer for the next. */
const lastingMs = 10_000;
const frameMs = 16;
/** How long a log may be on its way before the part that is here is drawn: when its length is known, and when it is not. */
const replayMs = { known: 300, unknown: 100 };

/**
 * Follows a session's log: everything from the start, then as it happens. When the connection breaks it goes on after the
 * last entry it has, so that nothing is missed and nothing comes twice. Whoever opens it closes it.
 */
export class EventStream {
  state: StreamState = { events: [], preview: '', phase: 'reading', refusal: undefined };
  private readonly url: string;
  /** How many entries there were when the page was opened: until they are here there is nothing worth drawing. */
  private readonly expected: number;
  private readonly abort = new AbortController();
  private readonly listeners = new Set<() => void>();
  private pending: LogEvent[] = [];
  private preview = noPreview;
  private lastSeq = 0;
  private scheduled: ReturnType<typeof setTimeout> | undefined;
  private delay = 0;

  constructor(url: string, expected = 0) {
    this.url = url;
    this.expected = expected;
    void this.run();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  close(): void {
    this.abort.abort();
    this.cancel();
  }

  private async run(): Promise<void> {
    for (let failures = 0; !this.abort.signal.aborted; ) {
      const [before, begun] = [this.lastSeq, performance.now()];
      let waitMs: number | undefined;
      try {
        const outcome = await this.readOnce();
        if (outcome === 'refused') return;
        waitMs = outcome.waitMs;
      } catch {
        if (this.abort.signal.aborted) return;
        reportLost();
      }
      failures = this.lastSeq > before || performance.now() - begun > lastingMs ? 0 : failures + 1;
      this.preview = noPreview;
      this.publish({ phase: 'lost' });
      await new Promise((resolve) => setTimeout(resolve, waitMs ?? Math.min(150 * 2 ** failures, 8_000)));
      await untilReachable();
    }
  }

  /** Reads until the stream ends; then how long to wait, where the server said so. `refused`: asking again would not help. */
  private async readOnce(): Promise<'refused' | { waitMs?: number | undefined }> {
    const attempt = new AbortController();
    const signal = AbortSignal.any([this.abort.signal, attempt.signal, whileReachable()]);
    const response = await watch(fetch(`${this.url}?deltas=true&after=${this.lastSeq}`, { headers: ownHeaders(), signal }));
    if (!response.ok || response.body === null) {
      const problem = await refusal(response);
      if (response.status >= 500 || response.status === 429) return { waitMs: problem.waitMs };
      if (response.status === 401 && !(await checkSignedIn())) {
        await untilSignedIn(this.abort.signal);
        return {};
      }
      this.publish({ phase: 'refused', refusal: problem });
      return 'refused';
    }
    // An empty log sends nothing: it is here all the same.
    this.delay = this.expected > 0 ? replayMs.known : replayMs.unknown;
    this.scheduled ??= setTimeout(() => this.publish({ phase: 'live' }), this.delay);
    let watchdog = setTimeout(() => attempt.abort(), silentMs);
    const parser = createParser({ onEvent: ({ data }) => this.take(data, attempt) });
    const decoder = new TextDecoder();
    try {
      for (const reader = response.body.getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) return {};
        clearTimeout(watchdog);
        watchdog = setTimeout(() => attempt.abort(), silentMs);
        parser.feed(decoder.decode(value, { stream: true }));
      }
    } finally {
      clearTimeout(watchdog);
    }
  }

  private take(data: string, attempt: AbortController): void {
    const frame = parseFrame(data);
    if (frame === undefined) return;
    if (!('seq' in frame)) this.preview = previewAfter(this.preview, frame);
    else if (frame.seq === this.lastSeq + 1) {
      this.lastSeq = frame.seq;
      this.pending.push(frame);
      this.preview = previewAfter(this.preview, frame);
    } else if (frame.seq > this.lastSeq) {
      // A gap must never be shown as if it were the whole: ask again from where we are.
      attempt.abort();
      return;
    }
    // A few frames are shown at once; a long log is drawn when it is here, or as far as it came in a moment.
    const hurry = this.expected > 0 ? this.lastSeq >= this.expected : this.pending.length < 100;
    if (hurry && this.delay > frameMs) this.cancel();
    this.delay = hurry ? frameMs : this.expected > 0 ? replayMs.known : replayMs.unknown;
    this.scheduled ??= setTimeout(() => this.publish({ phase: 'live' }), this.delay);
  }

  private cancel(): void {
    clearTimeout(this.scheduled);
    this.scheduled = undefined;
  }

  /** Many frames, one rendering. */
  private publish(changes: Partial<StreamState>): void {
    this.cancel();
    const events = this.pending.length === 0 ? this.state.events : this.state.events.concat(this.pending);
    this.pending = [];
    this.state = { ...this.state, ...changes, events, preview: this.preview.text };
    for (const listener of this.listeners) listener();
  }
}
