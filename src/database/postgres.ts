import { Socket } from 'node:net';
import { Kysely, PostgresDialect, type RawBuilder } from 'kysely';
import { ConfigError } from '../config.ts';
import { errorCode, errorMessage } from '../errors.ts';
import type { Database, PreparedStatement } from './database.ts';
import { pg } from './driver.ts';
import { locks } from './locks.ts';
import { createListener, stayIdle } from './postgres-listener.ts';
import type { Schema } from './schema.ts';

const connectMs = 5_000;
/** A server that is gone without a word would otherwise be waited for until the kernel gives up, a quarter of an hour later. */
const silenceMs = 30_000;
/** Hot statements take milliseconds. Whoever waits behind one that does not come back should hear of it sooner. */
const hotMs = 10_000;
/** An urgent one that hangs on a dead connection is asked again on another before a lease has run out. */
const urgentMs = 2_000;
/** A process that was halted inside a transaction must not keep the others from its rows. */
const endHalted = "set idle_in_transaction_session_timeout = '10s'";
/**
 * A statement takes a millisecond. Where tables are large and were never analyzed, as after a restore, the planner expects many
 * rows and has it compiled first: 50 ms, each time.
 */
const neverCompile = 'set jit = off';
/** What an installation or a role may have set otherwise: dates that the driver cannot read, and transactions that fail where ours wait. */
const asExpected = "set datestyle = 'ISO'; set default_transaction_isolation = 'read committed'";
/** To build an index, or to wait for a process that does. What a role was given for its queries would fail every start. */
const waitAsLongAsItTakes = 'set statement_timeout = 0; set lock_timeout = 0';

/** The second takes bytes as they come, and is what a server gets that is set up without a locale. */
const holdsAnyText = new Set(['UTF8', 'SQL_ASCII']);

export async function openPostgres(databaseUrl: string, poolSize: number): Promise<Database> {
  const url = verifyingUrl(databaseUrl);
  const options: pg.PoolConfig = {
    stream: () => new Socket().setTimeout(silenceMs, giveUp),
    // A pooler lets us in and may then have nothing to give.
    onConnect: (client) => client.query(within(connectMs, { text: `${asExpected}; ${endHalted}; ${neverCompile}; ${stayIdle}` })),
  };
  const pool = openPool(url, { ...options, max: poolSize });
  const urgentPool = openPool(url, { ...options, max: 1, query_timeout: urgentMs });
  await checkServer(pool, url);
  const listener = createListener(url);
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
  return {
    engine: 'postgres',
    db,
    async prepared<Row>(statement: PreparedStatement, values: unknown[]) {
      const result = await pool.query(within(hotMs, { name: statement.name, text: statement.text, values }));
      return result.rows as Row[];
    },
    async urgently<Row>(statement: RawBuilder<Row>) {
      const { sql: text, parameters } = statement.compile(db);
      const query = { text, values: [...parameters] };
      const result = await urgentPool.query(query).catch((error: unknown) => {
        // The server has no connection left to give: better one of those that we have.
        if (errorCode(error) === '53300') return pool.query(within(urgentMs, query));
        throw error;
      });
      return result.rows as Row[];
    },
    async exclusively(work) {
      const patient = openPool(url, { max: 1, onConnect: (client) => client.query(`${asExpected}; ${waitAsLongAsItTakes}`) });
      try {
        await patient.query(`select pg_advisory_lock(${locks.migration})`);
        // Closing the connection gives the lock back.
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
    pool: () => ({ open: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    async ping() {
      const text = "select current_setting('transaction_read_only') = 'on' as readonly";
      const { rows } = await pool.query<{ readonly: boolean }>(within(connectMs, { text }));
      // A standby, or a server that is set so: the same error as that of a write.
      if (rows[0]?.readonly) throw Object.assign(new Error('the database is read-only'), { code: '25006' });
    },
    async close() {
      await listener.stop();
      await urgentPool.end();
      await pool.end();
    },
  };
}

/**
 * `pg` takes these for verify-full and warns that its next version will not: here they mean what they mean now. Whoever wants libpq's
 * weaker reading of them says so in the URL.
 */
function verifyingUrl(url: string): string {
  return /[?&]uselibpqcompat=/.test(url) ? url : url.replace(/([?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
}

function openPool(url: string, options: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: connectMs, keepAlive: true, ...options });
  // A connection that breaks while idle is dropped by the pool; the next query opens another.
  pool.on('error', () => {});
  // One that breaks while it is in use fails its query; the client reports it once more, which unheard would end the process.
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/** The pool drops the connection of a statement that took longer. */
function within<Query extends pg.QueryConfig>(milliseconds: number, query: Query): Query {
  return { ...query, query_timeout: milliseconds };
}

function giveUp(this: Socket): void {
  this.destroy(Object.assign(new Error('the database does not answer'), { code: 'ETIMEDOUT' }));
}

/** A wrong address is found out at the start, in words that name the setting. */
async function checkServer(pool: pg.Pool, url: string): Promise<void> {
  try {
    const { rows } = await pool.query<{ version: number; encoding: string }>(
      `select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding`,
    );
    const { version = 0, encoding = '' } = rows[0] ?? {};
    if (version < 150_000) throw new Error('PostgreSQL 15 or later is required');
    if (!holdsAnyText.has(encoding)) {
      const advice = 'Make another with: createdb --encoding=UTF8 --template=template0';
      throw new ConfigError(`DATABASE_URL: the encoding of the database is ${encoding}, which has no place for most characters. ${advice}`);
    }
    await checkPooler(openPool(url, { max: 1 }), pool);
  } catch (error) {
    await pool.end();
    if (error instanceof ConfigError) throw error;
    throw new Error(`DATABASE_URL: ${errorMessage(error) || errorCode(error) || 'the server cannot be reached'}`, { cause: error });
  }
}

/**
 * A pooler that lends a connection for one transaction makes two of ours meet on the same one: it would lose what we prepare, set and
 * listen to, and keep our locks for good. `one` has a single connection, and is closed.
 */
async function checkPooler(one: pg.Pool, others: pg.Pool): Promise<void> {
  const backendOf = async (pool: pg.Pool) => (await pool.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid;
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
