import type { Dispatcher } from 'undici';

/**
 * A body as it is read: the pieces of one packet together, and those that come fast after each other gathered, so that a
 * model's words are passed on some at a time at a fraction of the cost. A piece waits at most as long as the answer has
 * taken until then, and never longer than an eye can tell; the first, and one that comes after a pause, waits for nothing.
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
          this.isOver = true;
          onCancel();
          request.abort(new Error('The response was no longer wanted'));
        },
      },
      { highWaterMark: 4 },
    );
  }

  add(piece: Uint8Array): void {
    this.pieces.push(piece);
    // The other pieces of the packet come before the microtask.
    if (this.pieces.length === 1 && !this.isGathering) queueMicrotask(() => this.send());
  }

  end(): void {
    this.flush();
    if (!this.isOver) this.target?.close();
    this.isOver = true;
  }

  fail(error: unknown): void {
    this.flush();
    this.isOver = true;
    this.target?.error(error);
  }

  /** Lets what has come since the last piece be read. */
  readGathered(): void {
    if (!this.isOver && !this.isFull) this.request.resume();
  }

  sendGathered(): void {
    this.isGathering = this.pieces.length > 0;
    if (this.isGathering) this.send();
    // Where its reader has caught up in the meantime.
    else this.readGathered();
  }

  private send(): void {
    const now = performance.now();
    const patience = Math.min(maxGatherMs, Math.max(1, now - this.begunAt));
    const isFast = this.isGathering || now - this.sentAt < patience;
    this.sentAt = now;
    const bytes = this.flush();
    this.isGathering = isFast && bytes < bulkBytes && !this.isOver;
    if (!this.isGathering) return;
    this.request.pause();
    if (patience < maxGatherMs) gather([this], patience);
    else joinRound(this);
  }

  private flush(): number {
    const { pieces } = this;
    const [first] = pieces;
    if (first === undefined || this.isOver || this.target === undefined) return 0;
    // Before the next line, which may bring more.
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

/**
 * Answers that wait for the same moment. One after the other they cost about a third less than each at its own time: the code and
 * the connections are warm, and turns that end together are written together.
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
    // What has come in the meantime is read before the immediate, all at once.
    setImmediate(() => {
      for (const answer of answers) answer.sendGathered();
    });
  }, milliseconds);
}

const maxGatherMs = 50;
/** So that a round holds up other work for a few milliseconds at most. */
const maxTogether = 32;
/** More than words: a download, which nothing should hold up. */
const bulkBytes = 8 * 1024;
