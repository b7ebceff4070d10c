import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { Kysely, PostgresDialect, type PostgresPool } from 'kysely';
import type { Logger } from '../telemetry/logger.ts';
import { makeFilledDirectory, prepareDataDirectory } from './data-directory.ts';
import type { Database, PreparedStatement } from './database.ts';
import { lockDirectory } from './directory-lock.ts';
import { watchDiskSpace } from './disk-space.ts';
import { pg } from './driver.ts';
import type { Schema } from './schema.ts';
import { keepUp } from './upkeep.ts';

/** At every start V8 takes 1.2 GB for a second, to optimize one large function of the engine. */
const optimizingBytes = 2 * 2 ** 30;

/** Opens the embedded engine in `<data dir>/db`. A second process is refused. */
export async function openPGlite(dataDirectory: string, logger?: Logger): Promise<Database> {
  await prepareDataDirectory(dataDirectory);
  const release = await lockDirectory(dataDirectory);
  const directory = join(dataDirectory, 'db');
  const checkSpace = watchDiskSpace(dataDirectory);
  try {
    // The engine creates files that everyone can write, so its directory must be the owner's alone, whatever the one above allows.
    // Creating a database takes memory that the thread never gives back, so that thread is closed and another opens the database.
    if (!existsSync(directory)) await makeFilledDirectory(directory, async (draft) => (await startPGlite(draft, { checkSpace })).close());
    return await startPGlite(directory, { checkSpace, onClosed: release, logger });
  } catch (error) {
    await release();
    throw error;
  }
}

interface EngineOptions {
  /** Called before every write; throws to refuse it. */
  checkSpace?: () => void;
  onClosed?: () => Promise<void>;
  logger?: Logger | undefined;
}

/**
 * Starts the engine on a thread of its own, so that a long statement does not block the thread that serves HTTP, and opens the one
 * connection that the engine allows. Without a directory it is in memory.
 */
export async function startPGlite(directory: string | undefined, options: EngineOptions = {}): Promise<Database> {
  const { checkSpace = () => {}, onClosed, logger } = options;
  checkSpace();
  // Without the optimization a turn costs a third more; with it, a container of 1 GiB was killed at every start.
  if (process.availableMemory() < optimizingBytes) setFlagsFromString('--no-wasm-tier-up --no-wasm-dynamic-tiering');
  const thread = new Worker(new URL('./pglite-thread.ts', import.meta.url), { workerData: directory });
  // From here on nothing handles the thread's `error` event: if the engine fails, so does the process, which cannot work without it.
  await once(thread, 'message');
  const stream = () => new ThreadSocket(thread);
  const pool = new pg.Pool({ max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true, user: 'postgres', stream, pipeline: true });
  const shared = new SharedConnection(pool);
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool: refusingWrites(pool, checkSpace) }) });
  const endUpkeep = keepUp(db, checkSpace, directory, logger);
  return {
    engine: 'pglite',
    db,
    async prepared<Row>({ name, text, writes }: PreparedStatement, values: unknown[]) {
      if (writes) checkSpace();
      const { rows } = await shared.query({ name, text, values });
      return rows as Row[];
    },
    urgently: async (statement) => (await statement.execute(db)).rows,
    exclusively: (work) => work(db, async (text) => void (await shared.query(text))),
    async listen(receive) {
      const client = await pool.connect();
      client.on('notification', ({ payload = '' }) => receive(payload));
      await client.query('listen parley').finally(() => client.release());
    },
    async notify(payload) {
      await shared.query({ text: 'select pg_notify($1, $2)', values: ['parley', payload] });
    },
    pool: () => ({ open: 1, idle: pool.idleCount, waiting: pool.waitingCount + Math.max(0, shared.unanswered - 1) }),
    async ping() {
      checkSpace();
      await shared.query('select 1');
    },
    async close() {
      endUpkeep();
      await pool.end();
      thread.ref();
      thread.postMessage('close');
      await once(thread, 'exit');
      await onClosed?.();
    },
  };
}

/**
 * Runs statements that are no part of a transaction. One that comes while others run, or wait for the connection, is sent right behind
 * them: otherwise the engine would idle until this thread has read the answer before it, which under load takes as long as a statement.
 * Whoever else waits for the connection gets it as soon as those have been answered.
 */
class SharedConnection {
  /** Statements that have no answer yet. */
  unanswered = 0;
  private readonly pool: pg.Pool;
  private last: { client: Promise<pg.PoolClient>; isHeld: boolean; users: number } | undefined;

  constructor(pool: pg.Pool) {
    this.pool = pool;
  }

  async query(statement: string | pg.QueryConfig): Promise<pg.QueryResult> {
    if (this.last === undefined || (this.last.isHeld && this.pool.waitingCount > 0))
      this.last = { client: this.pool.connect(), isHeld: false, users: 0 };
    const lease = this.last;
    lease.users += 1;
    this.unanswered += 1;
    // Fails only once the pool has been closed.
    const client = await lease.client;
    lease.isHeld = true;
    return client.query(statement).finally(() => {
      this.unanswered -= 1;
      lease.users -= 1;
      if (lease.users > 0) return;
      if (this.last === lease) this.last = undefined;
      // Not with the error of a statement: that would close the connection.
      client.release();
    });
  }
}

/** Passes bytes to the engine's thread and back. `pg` uses it as a socket. */
class ThreadSocket extends Duplex {
  private readonly thread: Worker;
  private readonly receive = (answer: Uint8Array) => void this.push(answer);

  constructor(thread: Worker) {
    super();
    this.thread = thread;
    thread.on('message', this.receive);
  }

  connect(): void {
    process.nextTick(() => this.emit('connect'));
  }

  setNoDelay(): void {}

  ref(): void {
    this.thread.ref();
  }

  unref(): void {
    this.thread.unref();
  }

  override _read(): void {}

  override _write(message: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.send(message, done);
  }

  /** `pg` writes a statement as several messages: the thread gets them as one. */
  override _writev(messages: { chunk: Buffer }[], done: () => void): void {
    this.send(Buffer.concat(messages.map(({ chunk }) => chunk)), done);
  }

  /** The engine does not close its side: without this, a connection that was in use when the pool ended would never be closed. */
  override _final(done: () => void): void {
    this.thread.off('message', this.receive);
    this.push(null);
    done();
  }

  private send(bytes: Buffer, done: () => void): void {
    this.thread.postMessage(bytes);
    done();
  }
}

/** A pool that refuses writes while the disk is nearly full. A transaction counts as a write. */
function refusingWrites(pool: pg.Pool, checkSpace: () => void): PostgresPool {
  const checked: ProxyHandler<pg.PoolClient> = {
    get(client, name) {
      const value: unknown = Reflect.get(client, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (name === 'query' && writeStatement.test(String(args[0]))) checkSpace();
        return Reflect.apply(value, client, args);
      };
    },
  };
  return { connect: async () => new Proxy(await pool.connect(), checked), end: () => pool.end(), options: {} };
}

const writeStatement = /^begin|\b(insert|update|delete)\b/i;
