import type { Dispatcher } from 'undici';

/**
 * The body of an answer as a stream that hands on fewer, larger pieces than come from the network: a model sends each word
 * by itself, and to pass on several at a time costs a fraction.
 *
 * The first piece, and one that comes after a pause, is handed on at once. When pieces come fast after each other, the
 * connection is not read for a while (`isGathering`), and then everything that has come is handed on together. That while
 * is as long as the answer has taken so far, but at most `maxGatherMs`, which nobody notices; and where many answers come at once,
 * some milliseconds from the beginning, since their words wait for each other anyway.
 */
export class AnswerBody {
  readonly stream: ReadableStream<Uint8Array>;
  private readonly request: Dispatcher.DispatchController;
  private target: ReadableStreamDefaultController<Uint8Array> | undefined;
  private pieces: Uint8Array[] = [];
  private readonly begunAt = performance.now();
  private sentAt = Number.NEGATIVE_INFINITY;
  private isGathering = false;
  private isFull = false;
  private isOver = false;

  constructor(request: Dispatcher.DispatchController, onCancel: () => void) {
    this.request = request;
    answersOpen += 1;
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (target) => {
          this.target = target;
        },
        pull: () => {
          this.isFull = false;
          if (!this.isGathering) request.resume();
        },
        cancel: () => {
          this.finish();
          onCancel();
          request.abort(new Error('The response was no longer wanted'));
        },
      },
      { highWaterMark: 4 },
    );
  }

  add(piece: Uint8Array): void {
    this.pieces.push(piece);
    // The other pieces of the same packet are added before the microtask runs.
    if (this.pieces.length === 1 && !this.isGathering) queueMicrotask(() => this.send());
  }

  end(): void {
    this.flush();
    if (!this.isOver) this.target?.close();
    this.finish();
  }

  fail(error: unknown): void {
    this.flush();
    this.finish();
    this.target?.error(error);
  }

  /** Reads the connection again, unless the reader of the stream is behind. */
  readGathered(): void {
    if (!this.isOver && !this.isFull) this.request.resume();
  }

  /** Hands on what was read; if that was nothing, the next piece need not wait. */
  sendGathered(): void {
    this.isGathering = this.pieces.length > 0;
    if (this.isGathering) this.send();
    // If its reader was behind and has caught up, nothing else starts the reading again.
    else this.readGathered();
  }

  private send(): void {
    const now = performance.now();
    const patience = Math.min(maxGatherMs, Math.max(1, Math.min(maxFirstGatherMs, answersOpen), now - this.begunAt));
    // The second piece of a fresh answer comes right behind the first: where many are open it is gathered too.
    const isFirst = this.sentAt === Number.NEGATIVE_INFINITY;
    const isFast = this.isGathering || now - this.sentAt < patience || (isFirst && answersOpen >= maxFirstGatherMs);
    this.sentAt = now;
    const bytes = this.flush();
    this.isGathering = isFast && bytes < bulkBytes && !this.isOver;
    if (!this.isGathering) return;
    this.request.pause();
    if (patience < maxGatherMs) gather([this], patience);
    else joinRound(this);
  }

  private finish(): void {
    if (!this.isOver) answersOpen -= 1;
    this.isOver = true;
  }

  private flush(): number {
    const { pieces } = this;
    const [first] = pieces;
    if (first === undefined || this.isOver || this.target === undefined) return 0;
    // Emptied first: `enqueue` may run the reader, and with it `add`.
    this.pieces = [];
    const whole = pieces.length === 1 ? first : Buffer.concat(pieces);
    this.target.enqueue(whole);
    if ((this.target.desiredSize ?? 1) <= 0) {
      this.isFull = true;
      this.request.pause();
    }
    return whole.length;
  }
}

/** How many have begun and not ended. */
let answersOpen = 0;

/**
 * Answers that gather until the same moment. To hand them on one after the other costs about a third less than each at its
 * own time: code and data are still in the processor's caches, and turns that end together are stored in one statement.
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
    for (const answer of answers) answer.readGathered();
    // Between the two, Node reads what has come on these connections.
    setImmediate(() => {
      for (const answer of answers) answer.sendGathered();
    });
  }, milliseconds);
}

/** A millisecond for each answer that is open, and at most this: whoever is alone is not held up. */
const maxFirstGatherMs = 8;
const maxGatherMs = 50;
/** So that a round holds up other work for a few milliseconds at most. */
const maxTogether = 32;
/** A piece this large is a download and not words: it is not held up. */
const bulkBytes = 8 * 1024;
