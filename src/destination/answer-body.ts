import type { Dispatcher } from 'undici';

type ReadResult = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>['read']>>;

/**
 * The body of a response, read in fewer and larger chunks than the network delivers. A model sends every word as a chunk of its own,
 * and handling several words together costs a fraction of handling each.
 *
 * The first chunk, and any chunk after a pause, is handed on at once. When chunks follow each other quickly, the socket is
 * paused for a moment (`isGathering`); then everything that arrived meanwhile is read and handed on as one chunk. The moment
 * is as long as the response has lasted so far, up to `maxGatherMs`, which no reader notices. While several responses are open
 * at once, gathering starts with the first chunk, because their chunks have to wait for each other anyway.
 */
export class AnswerBody {
  private readonly request: Dispatcher.DispatchController;
  private readonly onCancel: () => void;
  /** Read from the socket and not handed on yet. */
  private chunks: Uint8Array[] = [];
  /** Handed on and not read yet. */
  private readonly unread: Uint8Array[] = [];
  private waiting: PromiseWithResolvers<ReadResult> | undefined;
  private failure: { error: unknown } | undefined;
  private readonly begunAt = performance.now();
  private sentAt = Number.NEGATIVE_INFINITY;
  private isGathering = false;
  private isFull = false;
  private isOver = false;

  constructor(request: Dispatcher.DispatchController, onCancel: () => void) {
    this.request = request;
    this.onCancel = onCancel;
    answersOpen += 1;
  }

  /** A body has one reader: itself. */
  getReader(): this {
    return this;
  }

  /** Like `read` of a stream's reader, for one call at a time. */
  read(): Promise<ReadResult> {
    const next = this.next();
    this.isFull = this.unread.length >= maxUnread;
    // Comes last: undici may add the rest, and end the body, before `resume` returns.
    if (!this.isGathering) this.readOn();
    return next;
  }

  /** Forgets what came and was not read. */
  discard(): void {
    this.chunks = [];
    this.unread.length = 0;
  }

  /** Closes the connection, unless the body has ended. */
  async cancel(): Promise<void> {
    this.discard();
    if (this.isOver) return;
    this.finish();
    this.onCancel();
    this.request.abort(new Error('The response was no longer wanted'));
  }

  toStream(): ReadableStream<Uint8Array> {
    const pull = async (target: ReadableStreamDefaultController<Uint8Array>) => {
      const { done, value } = await this.read();
      if (done) target.close();
      else target.enqueue(value);
    };
    return new ReadableStream({ pull, cancel: () => this.cancel() }, { highWaterMark: 0 });
  }

  add(chunk: Uint8Array): void {
    this.chunks.push(chunk);
    // undici adds the other chunks of the same packet before the microtask runs.
    if (this.chunks.length === 1 && !this.isGathering) queueMicrotask(() => this.send());
  }

  end(): void {
    this.flush();
    this.finish();
  }

  fail(error: unknown): void {
    if (this.isOver) return;
    this.flush();
    this.failure = { error };
    this.waiting?.reject(error);
    this.waiting = undefined;
    this.finish();
  }

  /** Reads the socket again, unless the reader is behind. */
  readOn(): void {
    if (!this.isOver && !this.isFull) this.request.resume();
  }

  /** Hands on what was read. If nothing came, the next chunk is handed on at once. */
  sendGathered(): void {
    this.isGathering = this.chunks.length > 0;
    if (this.isGathering) this.send();
    // A reader that caught up while we gathered did not resume the socket (see `read`): do it here.
    else this.readOn();
  }

  private next(): Promise<ReadResult> {
    const value = this.unread.shift();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    if (this.failure !== undefined) return Promise.reject(this.failure.error);
    if (this.isOver) return Promise.resolve({ done: true, value: undefined });
    this.waiting = Promise.withResolvers();
    return this.waiting.promise;
  }

  private send(): void {
    const now = performance.now();
    const gatherMs = Math.min(maxGatherMs, Math.max(1, Math.min(maxFirstGatherMs, 2 * answersOpen), now - this.begunAt));
    // The second chunk of a new response comes right after the first: while several are open, it is gathered too.
    const isFirst = this.sentAt === Number.NEGATIVE_INFINITY;
    const isFast = this.isGathering || now - this.sentAt < gatherMs || (isFirst && answersOpen >= several);
    this.sentAt = now;
    const bytes = this.flush();
    this.isGathering = isFast && bytes < bulkBytes && !this.isOver;
    if (!this.isGathering) return;
    this.request.pause();
    if (gatherMs < maxGatherMs) gather([this], gatherMs);
    else joinRound(this);
  }

  private finish(): void {
    if (!this.isOver) answersOpen -= 1;
    this.isOver = true;
    this.waiting?.resolve({ done: true, value: undefined });
    this.waiting = undefined;
  }

  private flush(): number {
    const [first] = this.chunks;
    if (first === undefined || this.isOver) return 0;
    const whole = this.chunks.length === 1 ? first : Buffer.concat(this.chunks);
    this.chunks = [];
    if (this.waiting === undefined) this.unread.push(whole);
    else this.waiting.resolve({ done: false, value: whole });
    this.waiting = undefined;
    // It may be one more: undici adds a chunk after `pause`.
    if (this.unread.length >= maxUnread) {
      this.isFull = true;
      this.request.pause();
    }
    return whole.length;
  }
}

/** Responses of this process whose body has not ended. */
let answersOpen = 0;

/**
 * Responses that gather until the same moment. Handing them on one right after the other costs about a third less than each
 * at its own time: code and data are still in the processor's caches, and turns that end together are stored in one statement.
 */
let round: AnswerBody[] = [];

function joinRound(answer: AnswerBody): void {
  if (round.length === 0 || round.length === maxTogether) {
    round = [];
    gather(round, maxGatherMs);
  }
  round.push(answer);
}

function gather(answers: AnswerBody[], milliseconds: number): void {
  setTimeout(() => {
    if (answers === round) round = [];
    for (const answer of answers) answer.readOn();
    // Before `setImmediate` runs, Node reads what has arrived on the resumed sockets.
    setImmediate(() => {
      for (const answer of answers) answer.sendGathered();
    });
  }, milliseconds);
}

/** A new response gathers for two milliseconds per open response, up to this many: a single one is hardly delayed. */
const maxFirstGatherMs = 16;
const several = 4;
const maxGatherMs = 50;
/** Chunks that wait for their reader before the socket rests. */
const maxUnread = 4;
/** Responses in one round: more would block the event loop for longer than a few milliseconds. */
const maxTogether = 32;
/** A chunk this large belongs to a download, not to the words of a model: it is not delayed. */
const bulkBytes = 8 * 1024;
