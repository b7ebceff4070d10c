// The disk below the database fills up, or cannot be written at all: 503 or a clear line, and nothing that was acknowledged is lost.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDatabase, engine, type TestDatabase } from '../../support/engine.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { type ServerProcess, spawnServer, startServer } from '../../support/server-process.ts';
import { mountSmallDisk, noSmallDisk, type SmallDisk } from '../../support/small-disk.ts';
import { until } from '../../support/until.ts';
import { connect, type Wire } from '../../support/wire.ts';

const settings = { PARLEY_LEASE_MS: '500', PARLEY_LOG_LEVEL: 'fatal', PARLEY_RATE_LIMIT_RPS: '0' };

test('a full disk is a 503 that says so; reads go on, and with room again everything does', {
  skip: noSmallDisk,
  timeout: 120_000,
}, async (t) => {
  const { server, disk, heal } = engine === 'pglite' ? await embeddedOn(t) : await postgresOn(t);
  const wire = connect(server.url, server.apiKey);
  await wire.post('/v1/sessions', { session_id: 'full' });
  const acknowledged: string[] = [];
  const say = async () => {
    // Random, so that it cannot be compressed away.
    const text = `/say ${acknowledged.length}\n${randomBytes(20_000).toString('hex')}`;
    const answer = await wire.post('/v1/sessions/full/messages', { text });
    if (answer.status === 200) acknowledged.push(text);
    return answer;
  };
  await say();
  await wire.post('/v1/sessions', { session_id: 'streamed' });
  const streamed = await wire.stream('/v1/sessions/streamed/messages', { text: '/delay 50\n/words 20', stream: true });
  const run = () => wire.post('/v1/sessions/full/messages', { text: '/delay 50\n/words 20' }, { 'idempotency-key': 'running' });
  const running = run();
  await sleep(200);
  disk.fill(engine === 'pglite' ? 1024 * 1024 : 0);
  const refusals = [];
  // Whoever was admitted before the end of the disk was felt.
  const waiting = [running];
  for (const until = Date.now() + 40_000; refusals.length < 5 && Date.now() < until; ) {
    const said = say();
    const answer = await Promise.race([said, sleep(2_000, undefined, { ref: false })]);
    if (answer === undefined) waiting.push(said);
    if (answer === undefined || answer.status === 200) continue;
    assert.equal(answer.status, 503, answer.text);
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    refusals.push(answer.body.detail);
  }
  assert.equal(refusals.length, 5, 'the disk was never full');
  const told = await Promise.race([Promise.all(waiting), sleep(20_000, undefined, { ref: false })]);
  assert.ok(told, 'a caller waits for as long as the disk is full');
  for (const { status, text } of told) assert.ok(status === 200 || status === 503, text);
  if (engine === 'pglite') {
    assert.deepEqual(new Set(refusals), new Set(['The database has no space left.']));
    for (const { status, headers, body } of [await running, await run()])
      assert.deepEqual([status, headers.get('retry-after'), body.detail], [503, '1', 'The database has no space left.']);
    const last = (await streamed.rest()).at(-1);
    assert.deepEqual([last?.event, last?.data.data.code], ['error', 'database_unavailable']);
    assert.equal((await wire.get('/v1/sessions/full')).status, 200, 'what is there can be read');
    const { status, body } = await wire.get('/readyz');
    assert.deepEqual([status, body.detail], [503, 'The database has no space left.']);
  }
  for (const [method, path, body] of [
    ['post', '/v1/sessions', {}],
    ['post', '/api/api_keys', { name: 'Full', scopes: [] }],
  ] as const) {
    const { status, text } = await wire[method](path, body);
    assert.ok(status === 503 || status < 300, text);
  }

  disk.empty();
  await heal();
  await untilSaid(say);
  const whole = await run();
  assert.deepEqual([whole.status, whole.headers.get('idempotent-replayed')], [200, 'true'], 'the turn that was cut short went on');
  assert.equal(whole.body.text.split(' ').length, 20);
  await streamed.leave();
  const log = await settled(wire);
  assert.deepEqual(
    log.map((entry) => entry.seq),
    log.map((_entry, index) => index + 1),
  );
  const messages = log.filter((entry) => entry.type === 'user.message').map((entry) => entry.text);
  for (const text of acknowledged) assert.equal(messages.filter((message) => message === text).length, 1, 'acknowledged, and there once');
  const ends = log.filter((entry) => entry.type === 'session.status_idle' || entry.type === 'session.error');
  assert.equal(ends.length, messages.length, 'every turn has an end');
  assert.equal((await wire.get('/readyz')).status, 200);
});

test('a data directory that cannot be written stops the start with a line that names it', { skip: engine === 'postgres' }, async (t) => {
  const directory = readOnlyDirectory(t);
  if (directory === undefined) return t.skip(`root may write anywhere, and ${noSmallDisk}`);
  const printed: string[] = [];
  const child = spawnServer({ PARLEY_DATA_DIR: directory, PORT: '0' }, (text) => printed.push(text));
  const code = await new Promise((resolve) => child.once('exit', resolve));
  assert.equal(code, 2, printed.join(''));
  assert.match(printed.join(''), /^parley: PARLEY_DATA_DIR: \S+ is not writable \(.+\)\n$/);
});

interface OnSmallDisk {
  server: ServerProcess;
  disk: SmallDisk;
  /** What an operator does besides making room. */
  heal(): Promise<void>;
}

async function embeddedOn(t: TestContext): Promise<OnSmallDisk> {
  const template = await createDatabase();
  t.after(() => template.remove());
  const endings = laterIn(t);
  const disk = mountSmallDisk(endings, 128);
  cpSync(template.settings.PARLEY_DATA_DIR, disk.path, { recursive: true });
  const database: TestDatabase = { settings: { PARLEY_DATA_DIR: disk.path }, remove: async () => {} };
  return { server: await startServer(endings, { database, settings }), disk, heal: async () => {} };
}

/** PostgreSQL itself is on the disk. It may crash at its end, and is then started again. */
async function postgresOn(t: TestContext): Promise<OnSmallDisk> {
  const endings = laterIn(t);
  const disk = mountSmallDisk(endings, 160);
  const postgres = await startPostgres({ synchronous_commit: 'on', max_wal_size: '32MB', min_wal_size: '32MB' }, disk.path);
  endings.after(() => postgres.stop());
  const database = await createDatabase(postgres.url);
  return { server: await startServer(endings, { database, settings }), disk, heal: () => postgres.restart() };
}

/** Ends in the reverse order: the disk goes last. */
function laterIn(t: TestContext): { after(work: () => Promise<void>): void } {
  const endings: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const end of endings.reverse()) await end();
  });
  return { after: (work) => void endings.push(work) };
}

function readOnlyDirectory(t: TestContext): string | undefined {
  if (process.getuid?.() === 0) {
    if (noSmallDisk) return undefined;
    const disk = mountSmallDisk(t, 8);
    disk.makeReadOnly();
    return disk.path;
  }
  const directory = mkdtempSync(join(tmpdir(), 'parley-read-only-'));
  chmodSync(directory, 0o500);
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

async function untilSaid(say: () => Promise<{ status: number; text: string }>): Promise<void> {
  await until(async () => {
    const { status, text } = await say();
    if (status !== 200) assert.equal(status, 503, text);
    return status === 200;
  }, 30_000);
}

async function settled(wire: Wire): Promise<{ seq: number; type: string; text?: string }[]> {
  const read = () => wire.get('/demo/assistant/v1/managed-agents/sessions/full');
  await until(async () => (await read()).body.status === 'idle', 30_000);
  return (await read()).body.events;
}
