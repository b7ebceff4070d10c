// `--workers`: several processes behind one port, and a first one that starts and stops them.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { Agent, get, type IncomingMessage, request } from 'node:http';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { locks } from '../../src/database/locks.ts';
import { apiKey } from '../support/app.ts';
import { createDatabase, engine, type TestDatabase } from '../support/engine.ts';
import { freePort } from '../support/free-port.ts';
import { spawnServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';
import type { Wire } from '../support/wire.ts';
import { halt, startWorkers } from '../support/workers.ts';

const options = { skip: engine === 'pglite' ? 'the embedded database takes one process' : false, timeout: 60_000 };

test('a worker that dies is replaced, and a signal ends them all, also while one is missing', options, async (t) => {
  const { primary, printed, workers, kill, started, client } = await startWorkers(t);
  const exited = once(primary, 'exit');
  const killOne = () => kill(workers()[0] ?? 0);
  assert.equal(workers().length, 2);
  await killOne();
  await started(3);
  assert.match(printed(), /^parley: process \d+ ended \(SIGKILL\); another is started$/m);
  const greeting = printed().match(/^(Parley is ready|API key)/gm);
  assert.deepEqual(greeting, ['Parley is ready', 'API key'], 'printed once, also when the first is replaced');
  // Whichever is asked: a counter that came from one alone would fall and rise from scrape to scrape.
  for (let scrape = 0; scrape < 3; scrape += 1) {
    const { text } = await client.get('/metrics');
    assert.deepEqual(text.match(/^parley_turns_running\{worker="\d+"\}/gm)?.length, 2);
    assert.equal(text.split('# TYPE parley_turns_running gauge\n').length, 2);
  }
  assert.equal(workers().length, 2);
  await client.post('/v1/sessions', { session_id: 'workers' });
  await killOne();
  const slow = client.post('/v1/sessions/workers/messages', { text: '/delay 100\n/words 25' });
  await until(async () => (await statusOf(client, 'workers')) === 'running');
  primary.kill('SIGTERM');
  assert.equal((await slow).status, 200);
  assert.deepEqual(await exited, [0, null]);
});

test('a worker is replaced also when nobody reads what the first process says of it', options, async (t) => {
  const { primary, workers, started, client } = await startWorkers(t);
  primary.stderr?.destroy();
  process.kill(workers()[0] ?? 0, 'SIGKILL');
  await started(3);
  assert.equal((await client.get('/healthz')).status, 200);
  assert.equal(workers().length, 2);
});

test('workers whose primary process is killed say so as they end', options, async (t) => {
  const { primary, printed, workers } = await startWorkers(t);
  const orphans = workers();
  primary.kill('SIGKILL');
  await until(async () => orphans.every((pid) => !existsSync(`/proc/${pid}/cwd`)));
  await until(async () => printed().split('the process that started this worker is gone').length === 3);
  for (const worker of [1, 2]) assert.match(printed(), new RegExp(`"worker":${worker},.*is gone`));
});

test('a worker that dies before it has taken a connection leaves no client waiting', options, async (t) => {
  const { url, workers } = await startWorkers(t);
  const [halted = 0] = workers();
  await halt(halted);
  // They take connections in turn, and whoever has not taken one gets no other.
  const asked = [1, 2, 3].map(() => fetch(`${url}/healthz`));
  const answers = Promise.allSettled(asked);
  await twoOf(asked);
  process.kill(halted, 'SIGKILL');
  assert.deepEqual((await answers).map(({ status }) => status).toSorted(), ['fulfilled', 'fulfilled', 'rejected']);
});

test('a busy worker is waited for by /metrics, and one that does not answer is counted', options, async (t) => {
  const { url, workers } = await startWorkers(t);
  const [halted = 0] = workers();
  // Whichever is asked first takes the connection, and the halted one takes none.
  const scrape = () => Promise.any([1, 2, 3].map(async () => (await fetch(`${url}/metrics`)).text()));
  const silent = (text: string) => /^parley_workers_silent (\d+)$/m.exec(text)?.[1];
  const answered = (text: string) => text.match(/^parley_turns_running\{worker="\d+"\}/gm)?.length;
  await halt(halted);
  const lacking = await scrape();
  const whole = scrape();
  await sleep(2_000);
  process.kill(halted, 'SIGCONT');
  assert.deepEqual([silent(lacking), answered(lacking)], ['1', 1]);
  assert.deepEqual([silent(await whole), answered(await whole)], ['0', 2]);
});

test('the last worker leaves no client waiting when it is told to stop', options, async (t) => {
  const { url, database, workers, kill } = await startWorkers(t);
  // A start waits for it. One that failed would be tried again all the time.
  const migrating = new pg.Client({ connectionString: database.settings.DATABASE_URL });
  await migrating.on('error', () => {}).connect();
  t.after(() => migrating.end());
  await migrating.query(`select pg_advisory_lock(${locks.migration})`);
  const [leaving = 0, killed = 0] = workers();
  await kill(killed);
  const asked: Promise<number>[] = [];
  process.kill(leaving, 'SIGTERM');
  // For 15 s it waits for another to serve in its place, in vain.
  await sleep(14_000);
  // So many that one is being handed over at any moment.
  for (; workers().includes(leaving); await sleep(5)) asked.push(...Array.from({ length: 20 }, () => statusOnNewConnection(url)));
  assert.ok((await Promise.all(asked)).includes(200));
});

test('a worker that is told to stop while no other serves goes on until another does', options, async (t) => {
  const { url, workers, kill } = await startWorkers(t);
  const [leaving = 0, killed = 0] = workers();
  await kill(killed);
  process.kill(leaving, 'SIGTERM');
  const asked: Promise<number>[] = [];
  for (; workers().includes(leaving); await sleep(5)) asked.push(statusOnNewConnection(url));
  assert.deepEqual([...new Set(await Promise.all(asked))], [200]);
});

test('a connection that waits for a worker is answered by one that starts', options, async (t) => {
  const { url, workers, kill } = await startWorkers(t);
  const [halted = 0, killed = 0] = workers();
  await kill(killed);
  await halt(halted);
  // The halted worker is handed the first of them.
  const asked = [1, 2, 3].map(() => fetch(`${url}/healthz`));
  await twoOf(asked);
  process.kill(halted, 'SIGCONT');
  assert.deepEqual(
    (await Promise.all(asked)).map(({ status }) => status),
    [200, 200, 200],
  );
});

test('a worker that is told to stop is replaced at once, ends its turns, and no request fails', options, async (t) => {
  const { url, printed, workers, started, client } = await startWorkers(t);
  const [leaving = 0] = workers();
  let isOver = false;
  const answers: (number | undefined)[] = [];
  /** On a connection that is kept, so that some are with the one that leaves. */
  const converse = async (index: number) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const say = async (path: string, body: unknown) => {
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
      const asked = request(url + path, { agent, method: 'POST', headers }).end(JSON.stringify(body));
      const [response] = (await once(asked, 'response')) as [IncomingMessage];
      await once(response.resume(), 'end');
      answers.push(response.statusCode);
    };
    await say('/v1/sessions', { session_id: `c${index}` });
    // Of two that begin a long turn one is surely with each worker, which takes connections in turn.
    if (index < 2) await say(`/v1/sessions/c${index}/messages`, { text: '/delay 100\n/words 40' });
    while (!isOver) {
      await say(`/v1/sessions/c${index}/messages`, { text: '/say ok' });
      await sleep(20);
    }
    agent.destroy();
  };
  const conversations = Promise.all([0, 1, 2, 3, 4, 5].map(converse));
  await until(async () => (await statusOf(client, 'c0')) === 'running' && (await statusOf(client, 'c1')) === 'running');
  process.kill(leaving, 'SIGTERM');
  await started(3);
  assert.ok(workers().includes(leaving), 'the other is there before it has ended');
  await until(async () => !workers().includes(leaving));
  await sleep(200);
  isOver = true;
  await conversations;
  assert.deepEqual(
    answers.filter((status) => status !== 200),
    [],
  );
  assert.match(printed(), new RegExp(`^parley: process ${leaving} was told to stop; another is started$`, 'm'));
  assert.equal(workers().length, 2);
});

test('a worker that cannot start again leaves the others serving, and is there when it can', options, async (t) => {
  const { database, printed, workers, started, client } = await startWorkers(t);
  const allowWrites = await refuseWrites(database);
  process.kill(workers()[0] ?? 0, 'SIGKILL');
  await until(async () => /^parley: process \d+ ended \(exit code 2\); another is started$/m.test(printed()), 30_000);
  assert.equal((await client.get('/healthz')).status, 200);
  assert.match((await client.get('/metrics')).text, /^parley_workers_silent 1$/m);
  await allowWrites();
  await started(3);
});

test('a process that cannot be started ends none of those that run, and is started when it can be', options, async (t) => {
  const { primary, printed, workers, started } = await startWorkers(t);
  const allowFiles = (most: number) => execFileSync('prlimit', ['--pid', `${primary.pid}`, `--nofile=${most}:`]);
  allowFiles(5);
  process.kill(workers()[0] ?? 0, 'SIGKILL');
  await until(async () => /^parley: a process cannot be started \(spawn .* EMFILE\)$/m.test(printed()));
  allowFiles(1_024);
  await started(3);
});

test('a worker that dies just before it is asked for its metrics ends no other', options, async (t) => {
  const { primary, url, printed, workers, started } = await startWorkers(t);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const ask = async (path: string) => {
    const [response] = (await once(get(url + path, { agent }), 'response')) as [IncomingMessage];
    await once(response.resume(), 'end');
    return response;
  };
  const { headers } = await ask('/v1/sessions/none');
  const line = new RegExp(`"worker":(\\d),.*"${headers['x-request-id']}"`);
  await until(async () => line.test(printed()));
  const other = workers()[line.exec(printed())?.[1] === '1' ? 1 : 0] ?? 0;
  // So that it reads of the question before it notices the death.
  primary.kill('SIGSTOP');
  const scrape = ask('/metrics');
  await sleep(500);
  process.kill(other, 'SIGKILL');
  await sleep(100);
  primary.kill('SIGCONT');
  assert.equal((await scrape).statusCode, 200);
  await started(3);
});

test('told to stop while they start, they end with the exit code of that signal, as a single process does', options, async (t) => {
  const port = await freePort();
  const silent = createServer().listen(port, '127.0.0.1');
  t.after(() => silent.close());
  const database = await createDatabase();
  t.after(database.remove);
  const settings = { ...database.settings, PORT: '0', DATABASE_URL: `postgres://127.0.0.1:${port}/parley` };
  const primary = spawnServer(settings, () => {}, ['--workers', '2']);
  const exited = once(primary, 'exit');
  const [socket] = await once(silent, 'connection');
  primary.kill('SIGTERM');
  assert.deepEqual(await exited, [143, null]);
  socket.destroy();
});

test('the first process ends with the exit code of one that could not close', options, async (t) => {
  const { primary, proxy } = await startWorkers(t);
  const exited = once(primary, 'exit');
  proxy.hold();
  primary.kill('SIGINT');
  assert.deepEqual(await exited, [1, null]);
});

/** For connections that are opened from now on, as of a standby that has not been promoted yet. Returns what ends it. */
async function refuseWrites({ settings }: TestDatabase): Promise<() => Promise<void>> {
  const alter = async (change: string) => {
    const admin = new pg.Client({ connectionString: settings.DATABASE_URL, options: '-c default_transaction_read_only=off' });
    await admin.connect();
    await admin.query(`alter database ${admin.database} ${change}`);
    await admin.end();
  };
  await alter('set default_transaction_read_only = on');
  return () => alter('reset default_transaction_read_only');
}

function twoOf([first, second, third]: Promise<unknown>[]): Promise<unknown> {
  return Promise.any([Promise.all([first, second]), Promise.all([first, third]), Promise.all([second, third])]);
}

/** 0 if the connection failed. */
function statusOnNewConnection(url: string): Promise<number> {
  return new Promise((resolve) => {
    get(`${url}/healthz`, { agent: false }, (response) => resolve(response.resume().statusCode ?? 0)).on('error', () => resolve(0));
  });
}

async function statusOf(client: Wire, sessionId: string): Promise<unknown> {
  return (await client.get(`/demo/assistant/v1/managed-agents/sessions/${sessionId}`)).body.status;
}
