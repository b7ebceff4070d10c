import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { Database, PreparedStatement } from './database.ts';
import type { Schema } from './schema.ts';

pg.types.setTypeParser(pg.types.builtins.INT8, Number);
pg.types.setTypeParser(pg.types.builtins.DATE, (value) => value);

export async function openPostgres(url: string, poolSize: number): Promise<Database> {
  const pool = new pg.Pool({ connectionString: url, max: poolSize, connectionTimeoutMillis: 5_000, keepAlive: true });
  // A connection that breaks while idle is dropped by the pool; the next query opens another.
  pool.on('error', () => {});
  // One that breaks while it is in use fails its query; the client reports it once more, which unheard would end the process.
  pool.on('connect', (client) => client.on('error', () => {}));
  await checkServer(pool);
  const listener = createListener(url);
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
  return {
    engine: 'postgres',
    db,
    async prepared<Row>(statement: PreparedStatement, values: unknown[]) {
      const result = await pool.query({ name: statement.name, text: statement.text, values });
      return result.rows as Row[];
    },
    async script(sql) {
      await pool.query(sql);
    },
    listen: (receive) => listener.start(receive),
    async notify(payload) {
      await pool.query('select pg_notify($1, $2)', ['parley', payload]);
    },
    async ping() {
      await pool.query('select 1');
    },
    async close() {
      await listener.stop();
      await pool.end();
    },
  };
}

/** A wrong address is found out at the start, in words that name the setting. */
async function checkServer(pool: pg.Pool): Promise<void> {
  try {
    const { rows } = await pool.query<{ version: number }>(`select current_setting('server_version_num')::int as version`);
    if ((rows[0]?.version ?? 0) < 150_000) throw new Error('PostgreSQL 15 or later is needed');
  } catch (error) {
    await pool.end();
    const reason = error instanceof Error ? error.message || ('code' in error ? String(error.code) : error.name) : String(error);
    throw new Error(`DATABASE_URL: ${reason}`, { cause: error });
  }
}

/** Holds one connection for LISTEN and opens it again when it breaks. Receivers look again after every reconnect. */
function createListener(url: string): { start(receive: (payload: string) => void): Promise<void>; stop(): Promise<void> } {
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;
  let stopped = false;

  async function connect(receive: (payload: string) => void): Promise<void> {
    const next = new pg.Client({ connectionString: url, keepAlive: true });
    next.on('notification', (message) => receive(message.payload ?? ''));
    next.on('error', () => {});
    next.on('end', () => {
      if (!stopped && client === next) reconnect(receive);
    });
    await next.connect();
    client = next;
    await next.query('listen parley');
  }

  function reconnect(receive: (payload: string) => void): void {
    retry = setTimeout(() => {
      connect(receive).then(
        () => receive('* reconnected'),
        () => reconnect(receive),
      );
    }, 250);
  }

  return {
    start: connect,
    async stop() {
      stopped = true;
      clearTimeout(retry);
      await client?.end().catch(() => {});
    },
  };
}
