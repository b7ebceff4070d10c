// The connections to PostgreSQL, mostly against stand-ins that say only what a test needs.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import { sql } from 'kysely';
import pg from 'pg';
import { type Database, isDatabaseFailure } from '../../../src/database/database.ts';
import { openPostgres } from '../../../src/database/postgres.ts';
import { createListener } from '../../../src/database/postgres-listener.ts';
import type { Owner } from '../../support/app.ts';
import { createDatabase, engine, openTestDatabase } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

const fixture = (name: string) => readFileSync(new URL(`../../fixtures/tls/${name}`, import.meta.url), 'utf8');
const options = { isServer: true, cert: fixture('pinned.example.pem'), key: fixture('pinned.example.key.pem') };

async function listen(owner: Owner, accept: (socket: Socket) => void): Promise<string> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket.on('error', () => {}));
    accept(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  owner.after(async () => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The server has no port');
  return `postgresql://parley@127.0.0.1:${address.port}/parley`;
}

test('whatever sslmode asks for TLS verifies the certificate, without a warning, unless libpq is to be followed', async (t) => {
  const url = await listen(t, (socket) => {
    socket.once('data', () => {
      socket.write('S');
      // Whoever comes this far has taken the certificate.
      new TLSSocket(socket, options).on('error', () => {}).once('data', () => socket.destroy());
    });
  });
  const warnings: Error[] = [];
  const note = (warning: Error) => void warnings.push(warning);
  process.on('warning', note);
  t.after(async () => void process.off('warning', note));
  for (const mode of ['prefer', 'require', 'verify-ca', 'verify-full'])
    await assert.rejects(
      openPostgres(`${url}?application_name=a%20b&sslmode=${mode}`, 1),
      /^Error: DATABASE_URL: self-signed certificate/,
      mode,
    );
  await assert.rejects(openPostgres(`${url}?sslmode=require&uselibpqcompat=true`, 1), /Connection terminated/);
  await sleep(1);
  assert.deepEqual(warnings, []);
});

test('a server whose certificate is not trusted, or that has none any more, is away rather than a fault of ours', async (t) => {
  const untrusted = await listen(t, (socket) => {
    socket.once('data', () => {
      socket.write('S');
      new TLSSocket(socket, options).on('error', () => {});
    });
  });
  const plain = await listen(t, (socket) => {
    socket.once('data', () => socket.write('N'));
  });
  for (const url of [untrusted, plain])
    await assert.rejects(openPostgres(`${url}?sslmode=verify-full`, 1), ({ cause }: Error) => isDatabaseFailure(cause));
});

/** PostgreSQL's AuthenticationOk and ReadyForQuery, and CommandComplete. */
const welcome = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]);
const done = Buffer.from([0x43, 0, 0, 0, 11, ...Buffer.from('LISTEN\0'), 0x5a, 0, 0, 0, 5, 0x49]);

test('a listener that is stopped while it connects again does not go on trying', async (t) => {
  const sockets: Socket[] = [];
  const url = await listen(t, (socket) => {
    sockets.push(socket);
    // Only the first is answered.
    if (sockets.length === 1)
      socket.once('data', () => {
        socket.write(welcome);
        socket.on('data', () => socket.write(done));
      });
  });
  const listener = createListener(url);
  await listener.start(() => {});
  sockets[0]?.destroy();
  await until(async () => sockets.length === 2);
  await listener.stop();
  sockets[1]?.destroy();
  await sleep(600);
  assert.equal(sockets.length, 2);
});

test('a pooler that lets us in and has no connection to give is waited for no longer than one that does not answer', async (t) => {
  const none = await listen(t, (socket) => {
    socket.once('data', () => socket.write(welcome));
  });
  let count = 0;
  const single = await listen(t, (socket) => {
    count += 1;
    const answers = count === 1 ? [welcome, done, oneRow({ version: '170000', encoding: 'UTF8' })] : [welcome];
    socket.on('data', () => socket.write(answers.shift() ?? ''));
  });
  const begun = performance.now();
  const unanswered = ({ message, cause }: Error) =>
    isDatabaseFailure(cause) && /^DATABASE_URL: Query read timeout\. If this is a pooler, .* default_pool_size of PgBouncer$/.test(message);
  await Promise.all([none, single].map((url) => assert.rejects(openPostgres(url, 1), unanswered)));
  assert.ok(performance.now() - begun < 10_000);
  assert.equal(count, 2);
});

/** The answer of PostgreSQL to a query: RowDescription with columns of type text, a DataRow, CommandComplete and ReadyForQuery. */
function oneRow(values: Record<string, string>): Buffer {
  const message = (type: string, ...parts: Buffer[]) => {
    const head = Buffer.alloc(7, type);
    head.writeInt32BE(6 + Buffer.concat(parts).length, 1);
    head.writeInt16BE(parts.length, 5);
    return Buffer.concat([head, ...parts]);
  };
  const column = (name: string) => Buffer.concat([Buffer.from(`${name}\0`), Buffer.alloc(9), Buffer.from([25]), Buffer.alloc(8)]);
  const value = (text: string) => Buffer.from([0, 0, 0, text.length, ...Buffer.from(text)]);
  return Buffer.concat([message('T', ...Object.keys(values).map(column)), message('D', ...Object.values(values).map(value)), done]);
}

test('a connection that turns out to be read-only is closed, and the next statement has another', {
  skip: engine === 'pglite' && 'only PostgreSQL has this',
}, async (t) => {
  const { settings, remove } = await createDatabase();
  t.after(remove);
  const url = settings.DATABASE_URL ?? '';
  const alter = async (change: string) => {
    const admin = new pg.Client({ connectionString: url, options: '-c default_transaction_read_only=off' });
    await admin.connect();
    await admin.query(`alter database ${admin.database} ${change}`);
    await admin.end();
  };
  const write = ({ db }: Database) => sql`update turns set lease_until = now()`.execute(db);
  const uses: ((database: Database) => Promise<unknown>)[] = [
    (database) => database.ping(),
    (database) => write(database),
    (database) => database.db.transaction().execute((transaction) => write({ ...database, db: transaction })),
  ];
  for (const use of uses) {
    await alter('set default_transaction_read_only = on');
    const database = await openPostgres(url, 1);
    await assert.rejects(use(database), { code: '25006' });
    await alter('reset default_transaction_read_only');
    await use(database).finally(() => database.close());
  }
});

test('what comes too late, when the database has been closed, is no fault of ours', async () => {
  const database = await openTestDatabase();
  await database.close();
  await assert.rejects(sql`select 1`.execute(database.db), isDatabaseFailure);
  await assert.rejects(database.prepared({ name: 'late', text: 'select 1' }, []), isDatabaseFailure);
});
