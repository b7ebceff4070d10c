import { Socket } from 'node:net';
import { Kysely, PostgresDialect, type PostgresPool, type RawBuilder } from 'kysely';
import { ConfigError } from '../config.ts';
import { errorCode, errorMessage } from '../errors.ts';
import { type Database, type PreparedStatement, throwUnsent } from './database.ts';
import { pg } from './driver.ts';
import { locks } from './locks.ts';
import { createListener, stayIdle } from './postgres-listener.ts';
import type { Schema } from './schema.ts';

const connectMs = 5_000;
/** Without it, a server that vanished would be waited for until the kernel gives up, after a quarter of an hour. */
const silenceMs = 30_000;
/** Prepared statements take milliseconds. One that does not come back must not hold up those behind it for `silenceMs`. */
const preparedMs = 10_000;
/** If a lease is being renewed over a dead connection, it can be renewed over another before it ends. */
const urgentMs = 2_000;
/**
 * All turns wait for the statement that writes the log, and all new sessions for another. Each goes out one at a time; with a
 * connection for each, neither waits behind searches and uploads.
 */
const writers = 2;
/** A process that was halted inside a transaction must not keep its rows locked. */
const endHalted = "set idle_in_transaction_session_timeout = '10s'";
/**
 * Our statements take a millisecond. In large tables that were never analyzed, as after a restore, the planner expects many rows
 * and compiles the statement first, which takes 50 ms each time.
 */
const neverCompile = 'set jit = off';
/** A server or a role may have other defaults: dates in a format that `pg` cannot read, or an isolation in which our transactions fail. */
const asExpected = "set datestyle = 'ISO'; set default_transaction_isolation = 'read committed'";
/** For migrations, which may build an index or wait for a process that does: a timeout set for the role would fail every start. */
const waitAsLongAsItTakes = 'set statement_timeout = 0; set lock_timeout = 0';

/** The SQLSTATE of a write that was refused because the server is a standby, or set so. */
const readOnly = '25006';

/** SQL_ASCII, the encoding of a server that was set up without a locale, stores any bytes. */
const encodingsOfAnyText = new Set(['UTF8', 'SQL_ASCII']);

export async function openPostgres(databaseUrl: string, poolSize: number): Promise<Database> {
  const url = verifyingUrl(databaseUrl);
  const options: pg.PoolConfig = {
    stream: () => new Socket().setTimeout(silenceMs, giveUp),
    // A pooler lets us in and may then have nothing to give.
    onConnect: (client) => client.query(within(connectMs, { text: `${asExpected}; ${endHalted}; ${neverCompile}; ${stayIdle}` })),
  };
  const pool = openPool(url, { ...options, max: poolSize });
  // It watches the connections that are opened from now on.
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool: closingReadOnly(pool) }) });
  const urgentPool = openPool(url, { ...options, max: 1, query_timeout: urgentMs });
  const writePool = openPool(url, { ...options, max: writers });
  await checkServer(pool, url);
  const listener = createListener(url);
  return {
    engine: 'postgres',
    db,
    async prepared<Row>({ name, text, writes }: PreparedStatement, values: unknown[]) {
      const query = within(preparedMs, { name, text, values });
      const result = writes ? await queryOneOf([writePool, pool], query) : await pool.query(query);
      return result.rows as Row[];
    },
    async urgently<Row>(statement: RawBuilder<Row>) {
      const { sql: text, parameters } = statement.compile(db);
      const query = within(urgentMs, { text, values: [...parameters] });
      const result = await queryOneOf([urgentPool, pool], query);
      return result.rows as Row[];
    },
    async exclusively(work) {
      const patient = openPool(url, { max: 1, onConnect: (client) => client.query(`${asExpected}; ${waitAsLongAsItTakes}`) });
      try {
        await patient.query(`select pg_advisory_lock(${locks.migration})`);
        // Closing the connection releases the lock.
        await work(new Kysely<Schema>({ dialect: new PostgresDialect({ pool: patient }) }), async (text) => {
          await patient.query(text);
        });
      } finally {
        await patient.end();
      }
    },
    listen: (receive) => listener.start(receive),
    async notify(payload) {
      await pool.query('select pg_notify($1, $2)', ['parley', payload]);
    },
    pool: () => ({
      open: pool.totalCount + writePool.totalCount,
      idle: pool.idleCount + writePool.idleCount,
      waiting: pool.waitingCount + writePool.waitingCount,
    }),
    async ping() {
      const text = "select current_setting('transaction_read_only') = 'on' as readonly";
      const client = await pool.connect();
      try {
        const { rows } = await client.query<{ readonly: boolean }>(within(connectMs, { text }));
        // A standby, or a server that is set so: the same error as that of a write.
        if (rows[0]?.readonly) throw Object.assign(new Error('the database is read-only'), { code: readOnly });
        client.release();
      } catch (error) {
        client.release(true);
        throw error;
      }
    },
    async close() {
      await listener.stop();
      await urgentPool.end();
      await writePool.end();
      await pool.end();
    },
  };
}

/**
 * `pg` treats these values of sslmode as verify-full, and warns that its next version will not. Saying verify-full keeps today's
 * meaning, without the warning. An operator who wants the weaker meaning of libpq sets `uselibpqcompat` in the URL.
 */
export function verifyingUrl(url: string): string {
  return /[?&]uselibpqcompat=/.test(url) ? url : url.replace(/([?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
}

function openPool(url: string, options: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: connectMs, keepAlive: true, ...options });
  // A connection that breaks while idle is dropped by the pool; the next query opens another.
  pool.on('error', () => {});
  // One that breaks while in use fails its query. The client then emits `error` too, which without a listener would end the process.
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/**
 * Closes a connection that refused a write: it may lead to a server that was the primary once, or keep a setting that was changed since.
 * After a failed `pool.query` the pool does so itself; Kysely would return it as good, and the one last used is handed out first.
 */
function closingReadOnly(pool: pg.Pool): PostgresPool {
  const refused = new WeakSet<pg.PoolClient>();
  pool.on('connect', (client) =>
    client.connection.on('errorMessage', (error: unknown) => {
      if (errorCode(error) === readOnly) refused.add(client);
    }),
  );
  const connect = async () => {
    const client = await pool.connect();
    const { release } = client;
    client.release = (isBroken) => release(isBroken || refused.has(client));
    return client;
  };
  return { connect, end: () => pool.end(), options: {} };
}

/** Sends the query over the first pool or, when the server accepts no further connection, over one that another has. */
async function queryOneOf([pool, another]: [pg.Pool, pg.Pool], query: pg.QueryConfig): Promise<pg.QueryResult> {
  const connect = async () => {
    try {
      return await pool.connect();
    } catch (error) {
      if (errorCode(error) === '53300') return another.connect();
      throw error;
    }
  };
  const client = await connect().catch(throwUnsent);
  try {
    const result = await client.query(query);
    client.release();
    return result;
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/** The pool closes the connection of a statement that takes longer. */
function within<Query extends pg.QueryConfig>(milliseconds: number, query: Query): Query {
  return { ...query, query_timeout: milliseconds };
}

function giveUp(this: Socket): void {
  this.destroy(Object.assign(new Error('the database does not answer'), { code: 'ETIMEDOUT' }));
}

/** Fails the start, and names the setting, if the server cannot be reached or used. */
async function checkServer(pool: pg.Pool, url: string): Promise<void> {
  try {
    const { rows } = await pool.query<{ version: number; encoding: string }>(
      `select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding`,
    );
    const { version = 0, encoding = '' } = rows[0] ?? {};
    if (version < 150_000) throw new Error('PostgreSQL 15 or later is required');
    if (!encodingsOfAnyText.has(encoding)) {
      const advice = 'Make another with: createdb --encoding=UTF8 --template=template0';
      throw new ConfigError(`DATABASE_URL: the encoding of the database is ${encoding}, which has no place for most characters. ${advice}`);
    }
    await checkPooler(openPool(url, { max: 1 }), pool);
  } catch (error) {
    await pool.end();
    if (error instanceof ConfigError) throw error;
    const why = errorMessage(error) || errorCode(error) || 'the server cannot be reached';
    const isUnanswered = why === 'Query read timeout';
    const advice = isUnanswered ? '. If this is a pooler, it needs more connections to give, see default_pool_size of PgBouncer' : '';
    throw new Error(`DATABASE_URL: ${why}${advice}`, { cause: error });
  }
}

/**
 * Refuses a pooler in transaction mode (such as PgBouncer), which gives us another server connection for every transaction: prepared
 * statements, settings and LISTEN would be lost, and session locks never released. It shows when two of our connections have the
 * same server process, or one of them changes its own. `one` has a single connection, and is closed here.
 */
async function checkPooler(one: pg.Pool, others: pg.Pool): Promise<void> {
  // With one connection to give, a pooler in session mode leaves the second of ours waiting. If we waited longer, the pool would close
  // the first, and both would seem to share a server process.
  const askPid = within(connectMs, { text: 'select pg_backend_pid() as pid' });
  const backendOf = async (pool: pg.Pool) => (await pool.query<{ pid: number }>(askPid)).rows[0]?.pid;
  try {
    const first = await backendOf(one);
    if ((await backendOf(others)) !== first && (await backendOf(one)) === first) return;
  } finally {
    await one.end();
  }
  throw new ConfigError(
    'DATABASE_URL: leads to a pooler in transaction mode. Set it to session mode (pool_mode), or name the server itself',
  );
}
