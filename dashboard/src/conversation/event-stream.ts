import { createParser } from 'eventsource-parser';
import { untilInView, whileInView } from '../../../widget/src/in-view.ts';
import { reportLost, untilReachable, watchForSilence, whileReachable } from '../server/connection.ts';
import { checkSignedIn, untilSignedIn } from '../server/queries.ts';
import { dashboardHeaders, type RequestError, refusal } from '../server/request.ts';
import { type LogEvent, parseFrame } from './log-event.ts';
import { noPreview, previewAfter } from './preview.ts';

export interface StreamState {
  events: readonly LogEvent[];
  /** Text of the message that is being written now. */
  preview: string;
  phase: 'reading' | 'live' | 'lost' | 'refused';
  refusal: RequestError | undefined;
  /** Why the log is lost, if the server said so; it is asked for again. Where the server is away, the banner says it. */
  problem: RequestError | undefined;
}

export const initialState: StreamState = { events: [], preview: '', phase: 'reading', refusal: undefined, problem: undefined };

/** The server sends a comment every 15 s: a stream that is silent this long is dead, even if its connection seems open. */
const silentMs = 40_000;
/** A stream that lasted this long does not count as a failure: the next attempt is made without a longer delay. */
const lastingMs = 10_000;
/** New events are shown at most this often: about once per frame. */
const frameMs = 16;
/** Showing them takes at most a quarter of the time, so a long answer is drawn less often than every frame; but this often at least. */
const maxFrameMs = 200;
/** How long a log that is still loading may take until its first part is shown: if its length is known, and if it is not. */
const replayMs = { known: 300, unknown: 100 };

/**
 * Follows a session's log: the whole log first, then each event as it happens. When the connection breaks, it continues after
 * the last event it has, so that none is missed or comes twice. It has none while its tab is out of view: over HTTP/1.1 a browser opens
 * six to a server, for all tabs together, and the next tab would wait for one without end. The caller must `close` it.
 */
export class EventStream {
  state = initialState;
  private readonly url: string;
  /** Length of the log when the page was opened, or 0 if unknown. Up to this length the log is loaded before it is shown. */
  private readonly expected: number;
  private readonly replayDelay: number;
  private readonly abort = new AbortController();
  private readonly listeners = new Set<() => void>();
  /** Events that are not in `state` yet. */
  private pending: LogEvent[] = [];
  private preview = noPreview;
  private lastSeq = 0;
  private scheduled: ReturnType<typeof setTimeout> | undefined;
  /** The delay that was asked for last. */
  private delay = 0;
  private frameDelay = frameMs;

  constructor(url: string, expected = 0) {
    this.url = url;
    this.expected = expected;
    this.replayDelay = expected > 0 ? replayMs.known : replayMs.unknown;
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
      await untilInView(this.abort.signal);
      const [before, begun, view] = [this.lastSeq, performance.now(), whileInView()];
      let problem: RequestError | undefined;
      try {
        const outcome = await this.readOnce(view.signal);
        if (outcome === 'refused') return;
        problem = outcome.problem;
      } catch {
        if (this.abort.signal.aborted) return;
        if (!view.signal.aborted) reportLost();
      } finally {
        view.end();
      }
      const hasWorked = this.lastSeq > before || performance.now() - begun > lastingMs || view.signal.aborted;
      failures = hasWorked ? 0 : failures + 1;
      this.preview = noPreview;
      if (this.state.refusal === undefined) this.publish({ phase: 'lost', problem: whileReachable().aborted ? undefined : problem });
      await new Promise((resolve) => setTimeout(resolve, problem?.waitMs ?? Math.min(150 * 2 ** failures, 8_000)));
      await untilReachable();
    }
  }

  /** Reads until the stream ends. Returns `refused` if asking again would not help, or else why the server could not answer now, if it said so. */
  private async readOnce(inView: AbortSignal): Promise<'refused' | { problem?: RequestError }> {
    const attempt = new AbortController();
    const signal = AbortSignal.any([this.abort.signal, attempt.signal, inView, whileReachable()]);
    const response = await watchForSilence(fetch(`${this.url}?deltas=true&after=${this.lastSeq}`, { headers: dashboardHeaders(), signal }));
    if (!response.ok || response.body === null) {
      const problem = await refusal(response);
      if (response.status >= 500 || response.status === 429) return { problem };
      if (response.status === 401 && !(await checkSignedIn())) {
        await untilSignedIn(this.abort.signal);
        return {};
      }
      this.publish({ phase: 'refused', refusal: problem, problem: undefined });
      // A 403 may pass: support access can be turned on again, and a suspended organization resumed.
      return response.status === 403 ? {} : 'refused';
    }
    // Not only when events come: an empty log sends none, and must be shown as loaded too.
    this.schedule(this.replayDelay);
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
      // Events are missing: never show the log with a gap, but ask again from the last event.
      attempt.abort();
      return;
    }
    // A long log is not rendered again and again while it loads, but when it is complete, or after the delay. If its length is
    // unknown, it counts as loading while many events are pending.
    const isLoaded = this.expected > 0 ? this.lastSeq >= this.expected : this.pending.length < 100;
    const delay = isLoaded ? this.frameDelay : this.replayDelay;
    if (isLoaded && this.delay > delay) this.cancel();
    this.schedule(delay);
  }

  private schedule(delay: number): void {
    this.delay = delay;
    this.scheduled ??= setTimeout(() => this.publish({ phase: 'live', refusal: undefined, problem: undefined }), delay);
  }

  private cancel(): void {
    clearTimeout(this.scheduled);
    this.scheduled = undefined;
  }

  /** Adds everything pending to `state` at once, so that many events cause one rendering. */
  private publish(changes: Partial<StreamState>): void {
    this.cancel();
    const events = this.pending.length === 0 ? this.state.events : this.state.events.concat(this.pending);
    this.pending = [];
    this.state = { ...this.state, ...changes, events, preview: this.preview.text };
    const begun = performance.now();
    for (const listener of this.listeners) listener();
    // The page is drawn before the next task.
    setTimeout(() => {
      this.frameDelay = Math.min(maxFrameMs, Math.max(frameMs, 3 * (performance.now() - begun)));
    });
  }
}
