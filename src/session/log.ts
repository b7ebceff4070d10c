import { setTimeout as sleep } from 'node:timers/promises';
import { type Database, isUnsent, type PreparedStatement } from '../database/database.ts';
import { errorCode, overloaded } from '../errors.ts';
import { Batches } from '../work/batches.ts';
import type { FoldedEvent, NewEvent, StoredEvent } from './events.ts';
import { HolderName } from './holder-name.ts';
import type { Operation, ResultOf, StartedTurn } from './operations.ts';
import { inPages, type Page, readEvents, readPage, readPageToFold } from './read-events.ts';

const applyOperations: PreparedStatement = {
  name: 'apply-operations',
  text: 'select apply_turn_operations($1::json, $2, $3, $4) as answer',
  writes: true,
};
const findHead = { name: 'find-head', text: 'select 1 from sessions where id = $1' };

/**
 * Operations in one statement. With more, all turns of an overloaded server would wait for the same one, go on together and wait together
 * again, so that the processor and the database would idle in turns: 256 clients got a fifth fewer turns with 256 of them.
 */
const maxBatch = 64;
/**
 * Characters in one statement, if it has several operations: all of them wait for the longest. Together, long answers of one organization
 * could also be more than a string can hold, and would fail with those of all others.
 */
const maxBatchText = 2 ** 20;
/**
 * A statement costs about as much as six of the operations in it. So after a statement with several operations of an organization,
 * the next waits for more: two milliseconds for each operation of the last one, at most `maxGatherMs`, and no longer than until there
 * are `enoughOperations` or one for each running turn. An operation of any other organization ends the wait.
 */
const maxGatherMs = 20;
const gatherMsPerOperation = 2;
const enoughOperations = 20;
/** Some seconds of work for the database: a message behind that many operations would be answered too late. */
const maxWaiting = 4_096;
/** How long a message may wait for the statements before its own when one of them has failed, and a running turn for a connection. */
const patienceMs = 5_000;
const reconnectMs = 250;

/** What turns that run here write. */
const advances = new Set<Operation['kind']>(['append', 'pause', 'end']);

export interface Applied<Result = ResultOf<Operation>> {
  result: Result;
  /** When the batch was written: the time of every event in it. */
  at: Date;
  /** The answer took longer than a lease lasts: another process may hold the turn by now. */
  late: boolean;
}

interface Waiting {
  operation: Operation;
  /** The operation as JSON, made before it joins a batch: if it cannot be serialized, no other operation fails with it. */
  text: string;
  since: number;
  resolve(applied: Applied): void;
  reject(error: unknown): void;
}

/**
 * The append-only log of every conversation. Operations that wait at the same moment are committed by one statement, in the order
 * they came (group commit); each caller is answered when its batch is durable, never before.
 */
export class SessionLog {
  readonly holderName: HolderName;
  private readonly database: Database;
  private readonly leaseMs: number;
  /** Whether the statement itself notifies other processes. */
  private readonly notifies: boolean;
  /** Called with the sessions that a batch wrote to, once it is durable. */
  onWritten: (sessionIds: Set<string>) => void = () => {};
  /** How many turns run here. When all of them wait for a write, no other operation of theirs can come. */
  countRunning: () => number = () => Number.POSITIVE_INFINITY;
  private readonly batches = new Batches<Waiting>(maxBatch, (batch) => this.writeAndGather(batch), {
    of: ({ text }) => text.length,
    max: maxBatchText,
  });
  /** Sessions to which something may have been written without their watchers being told, because the answer was lost. */
  private doubtful = new Set<string>();
  /** Organizations with several operations in the last statement: only their operations wait for more. */
  private busyOrgs = new Set<number>();
  /** Ends the wait for more operations at once. */
  private endGathering = () => {};

  constructor(database: Database, processId: string, leaseMs: number, notifies: boolean) {
    this.database = database;
    this.holderName = new HolderName(database, processId);
    this.leaseMs = leaseMs;
    this.notifies = notifies;
  }

  /** Operations that wait for the statement under way. */
  get waitingWrites(): number {
    return this.batches.waiting.length;
  }

  /** Refuses new messages while too much waits. Operations of running turns are always taken: otherwise those could not end. */
  apply<Asked extends Operation>(operation: Asked): Promise<Applied<ResultOf<Asked>>> {
    if (operation.kind === 'admit' && this.waitingWrites >= maxWaiting) return Promise.reject(overloaded());
    const applied = new Promise<Applied>((resolve, reject) => {
      const { isWriting } = this.batches;
      this.batches.add({ operation, text: JSON.stringify(operation), since: performance.now(), resolve, reject });
      if (isWriting && (!this.busyOrgs.has(operation.org) || this.hasEnough())) this.endGathering();
    });
    // The SQL function answers each kind of operation with its own results.
    return applied as Promise<Applied<ResultOf<Asked>>>;
  }

  /** Something may have been written to this session without its watchers being told. */
  doubt(sessionId: string): void {
    this.doubtful.add(sessionId);
  }

  /** The sessions that came into doubt since the last call. Other processes are told of them; the caller tells its own watchers. */
  takeDoubtful(): Set<string> {
    const { doubtful } = this;
    if (doubtful.size === 0) return doubtful;
    this.doubtful = new Set();
    this.onWritten(doubtful);
    return doubtful;
  }

  read(sessionId: string, after: number, limit: number): Promise<StoredEvent[]> {
    return readEvents(this.database, sessionId, after, limit);
  }

  /** The events that follow `after`, as many as should be in memory at once. */
  readPage(sessionId: string, after: number): Promise<Page<StoredEvent>> {
    return readPage(this.database, sessionId, after);
  }

  /** Everything after `after`, in pages, so that a long log is never in memory at once. */
  readAll(sessionId: string, after = 0): AsyncGenerator<StoredEvent[]> {
    return inPages(after, (cursor) => this.readPage(sessionId, cursor));
  }

  /** What the state of a session is folded from ahead of a turn; see `readPageToFold`. */
  readToFold(sessionId: string, after: number, turnId: string): AsyncGenerator<FoldedEvent[]> {
    return inPages(after, (cursor) => readPageToFold(this.database, sessionId, cursor, turnId));
  }

  /** False when the session was dropped, and its log with it. */
  async exists(sessionId: string): Promise<boolean> {
    return (await this.database.prepared(findHead, [sessionId])).length > 0;
  }

  private async writeAndGather(batch: Waiting[]): Promise<void> {
    const begun = performance.now();
    await this.write(batch).catch((error: unknown) => this.writeApart(batch, error));
    this.busyOrgs = busyOrgsOf(batch);
    const gatherMs = begun + Math.min(maxGatherMs, batch.length * gatherMsPerOperation) - performance.now();
    const mayWait = !this.hasEnough() && this.batches.waiting.every((entry) => this.busyOrgs.has(entry.operation.org));
    if (this.busyOrgs.size > 0 && mayWait && gatherMs > 1) await this.gather(gatherMs);
  }

  private hasEnough(): boolean {
    if (this.waitingWrites >= enoughOperations) return true;
    const ofRunning = this.batches.waiting.reduce((count, { operation }) => count + (operation.kind === 'admit' ? 0 : 1), 0);
    return ofRunning >= this.countRunning();
  }

  private gather(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.endGathering = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private async write(batch: Waiting[]): Promise<void> {
    const operations = `[${batch.map((entry) => entry.text).join(',')}]`;
    const holder = await this.holderName.current();
    const [asked, askedAt] = [performance.now(), Date.now()];
    const [row] = await this.database.prepared<{ answer: Answer }>(applyOperations, [operations, holder, this.leaseMs, this.notifies]);
    if (row === undefined) throw new Error('apply_turn_operations gave no answer');
    const at = new Date(row.answer.at);
    // While the machine is suspended, only the second clock goes on.
    const late = Math.max(performance.now() - asked, Date.now() - askedAt) > this.leaseMs;
    const tell = () => {
      this.onWritten(new Set(batch.map((entry) => entry.operation.session)));
      batch.forEach((entry, index) => {
        const result = row.answer.results[index];
        if (result === undefined) entry.reject(new Error('an operation got no answer'));
        else entry.resolve({ result, at, late });
      });
    };
    // After the next statement has been sent: the database works on that one while the turns of this one continue.
    setImmediate(tell);
  }

  /**
   * When the content of one operation made the statement fail, nothing of the batch was written: each operation is then written
   * alone, so that only that one fails. An operation that was alone is tried once more after a conflict with another process.
   */
  private async writeApart(batch: Waiting[], error: unknown): Promise<void> {
    if (isUnsent(error)) return this.sendAgain(batch, error);
    const isConflict = errorCode(error)?.startsWith('40') ?? false;
    if (!isStatementError(error) || (batch.length === 1 && !isConflict)) return this.refuse(batch, error);
    for (const entry of batch) await this.write([entry]).catch((again: unknown) => this.refuse([entry], again));
  }

  /**
   * The database cannot be reached, as while it restarts. What running turns write is sent again for as long as their leases last: left
   * for recovery, they would ask the model again, and not know what became of the tool that they ran. Everything else is refused.
   */
  private async sendAgain(batch: Waiting[], error: unknown): Promise<void> {
    const longAgo = performance.now() - Math.min(patienceMs, this.leaseMs);
    const isOver = ({ operation, since }: Waiting) => !advances.has(operation.kind) || since < longAgo;
    for (const entry of [...batch.filter(isOver), ...this.batches.withdraw(isOver)]) entry.reject(error);
    const rest = batch.filter((entry) => !isOver(entry));
    if (rest.length === 0) return;
    await sleep(reconnectMs);
    await this.write(rest).catch((again: unknown) => this.writeApart(rest, again));
  }

  private refuse(batch: Waiting[], error: unknown): void {
    const mayBeWritten = !isStatementError(error);
    for (const entry of batch) {
      if (mayBeWritten) this.doubt(entry.operation.session);
      entry.reject(error);
    }
    if (!mayBeWritten) return;
    this.holderName.giveUp();
    // While the database hangs, each statement fails only after seconds: whoever is behind several of them would hear of it after a minute.
    const longAgo = performance.now() - patienceMs;
    const isTooLate = ({ operation, since }: Waiting) => operation.kind === 'admit' && since < longAgo;
    for (const entry of this.batches.withdraw(isTooLate)) entry.reject(error);
  }
}

/**
 * Whether the database refused the statement, by the class of SQLSTATE: its data (2x), a conflict (40), names and rights (42), our own
 * functions (P0). After any other error it may have been carried out.
 */
function isStatementError(error: unknown): boolean {
  return /^(2[0-9]|40|42|P0)/.test(errorCode(error) ?? '');
}

function busyOrgsOf(batch: readonly Waiting[]): Set<number> {
  const seen = new Set<number>();
  const busy = new Set<number>();
  for (const { operation } of batch) (seen.has(operation.org) ? busy : seen).add(operation.org);
  return busy;
}

interface Answer {
  at: string;
  results: ResultOf<Operation>[];
}

/** The events of an operation as they are in the log after it was applied. */
export function numberEvents(events: readonly NewEvent[], turnId: string, firstSeq: number, at: Date): StoredEvent[] {
  return events.map((event, index) => ({ ...event, seq: firstSeq + index, turnId, createdAt: at }));
}

/** The two events with which the log begins a turn. */
export function startedEvents(started: StartedTurn, at: Date): StoredEvent[] {
  return numberEvents(
    [
      { type: 'message-received', data: started.input },
      { type: 'turn-started', data: { agent: started.agent } },
    ],
    started.turn,
    started.seq,
    at,
  );
}
