// Two processes on one PostgreSQL whose notices go through Redis, which may go away at any moment: it only carries, it keeps nothing.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { chances, isLong, seed } from '../../support/chance.ts';
import { createDatabase, engine } from '../../support/engine.ts';
import { type RedisServer, startRedis } from '../../support/redis-server.ts';
import { runToEnd, startServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { connect, type LogEntry, type Wire } from '../../support/wire.ts';

const skip = engine === 'pglite' ? 'the embedded database takes one process' : false;
const outages = isLong ? 30 : 3;
const managed = '/demo/assistant/v1/managed-agents/sessions';

test('live text and wake-ups cross through Redis, and nothing is lost or late when Redis hangs, crashes and comes back', {
  skip,
  timeout: 60_000 + outages * 10_000,
}, async (t) => {
  t.diagnostic(`seed ${seed}`);
  const chance = chances(seed);
  const redis = await startRedis(t);
  const database = await createDatabase();
  t.after(() => database.remove());
  const settings = { REDIS_URL: redis.url, PARLEY_LEASE_MS: '1500', PARLEY_LOG_LEVEL: 'warn' };
  const first = await startServer(t, { database, settings });
  const second = await startServer(t, { database, settings });
  const [one, two] = [connect(first.url, first.apiKey), connect(second.url, second.apiKey)];

  await one.post('/v1/sessions', { session_id: 'live' });
  assert.ok((await deltasOf(one, two, 'live')) > 1, 'live text crosses through Redis');

  await one.post('/v1/sessions', { session_id: 'watched' });
  const abort = new AbortController();
  const seen: LogEntry[] = [];
  const watching = collect(two.follow('assistant', 'watched', 0, abort.signal), seen);
  let sent = 0;
  const say = async (): Promise<void> => {
    sent += 1;
    const answer = await one.post(`${managed}/watched/events`, { type: 'user.message', text: `/say ${sent}` });
    assert.equal(answer.status, 202);
    await arrival(seen, sent, `message ${sent}`);
  };
  await say();
  await showsConnected(one, 1);
  for (let outage = 0; outage < outages; outage += 1) {
    const isHang = outage % 3 === 2;
    if (isHang) process.kill(redis.pid, 'SIGSTOP');
    else await redis.stop();
    if (!isHang) await say();
    if (!isHang) await showsConnected(one, 0);
    await sleep(chance() * 200);
    if (!isHang) assert.equal((await one.post('/v1/sessions/live/messages', { text: '/say still here' })).status, 200);
    await restore(redis, isHang);
    await say();
    await showsConnected(one, 1);
  }
  abort.abort();
  await watching;
  assert.deepEqual(
    seen.map((entry) => entry.seq),
    seen.map((_entry, index) => index + 1),
  );
  await until(async () => (await deltasOf(one, two, 'live')) > 1);
  for (const line of ['Redis is not reachable: notices go through PostgreSQL', 'Redis is reachable again'])
    assert.ok(first.output().includes(`"msg":"${line}"`), line);
});

test('a Redis that takes what is said and never answers is given up, also while more is said every second', {
  skip,
  timeout: 60_000,
}, async (t) => {
  const redis = await startRedis(t);
  const database = await createDatabase();
  t.after(() => database.remove());
  const settings = { REDIS_URL: redis.url };
  const first = await startServer(t, { database, settings });
  const second = await startServer(t, { database, settings });
  const [one, two] = [connect(first.url, first.apiKey), connect(second.url, second.apiKey)];
  await one.post('/v1/sessions', { session_id: 'live' });
  assert.ok((await deltasOf(one, two, 'live')) > 1);
  process.kill(redis.pid, 'SIGSTOP');
  assert.equal((await one.post('/v1/sessions/live/messages', { text: '/say into the void' })).status, 200);
  await until(async () => first.output().includes('"msg":"Redis is not reachable: notices go through PostgreSQL"'), 15_000);
  await showsConnected(one, 0);
  assert.ok((await deltasOf(one, two, 'live')) > 1, 'live text crosses through PostgreSQL');
});

test('a Redis that is not there stops the start with a line that names the setting', { skip }, async (t) => {
  const database = await createDatabase();
  t.after(() => database.remove());
  const keys = { PARLEY_API_KEY: '', PARLEY_OPERATOR_KEY: '' };
  const { code, output } = await runToEnd({ ...database.settings, ...keys, REDIS_URL: 'redis://127.0.0.1:1' });
  assert.equal(code, 1);
  assert.match(output, /^parley: REDIS_URL: .+\n$/);
  // No key was made: the next start is the first.
  for (const file of ['credentials.json', 'secret.key'])
    assert.equal(existsSync(join(database.settings.PARLEY_DATA_DIR, file)), false, file);
});

test('a user of Redis who may not speak or listen there stops the start', { skip }, async (t) => {
  const redis = await startRedis(t);
  const database = await createDatabase();
  t.after(() => database.remove());
  const allowed = ['+ping', '+publish', '+subscribe'];
  const start = async (...rights: string[]) => {
    await command(redis, 'ACL', 'SETUSER', 'parley', 'reset', 'on', '>a b', ...rights);
    return runToEnd({ ...database.settings, REDIS_URL: redis.url.replace('//', '//parley:a%20b@') });
  };
  const says = async (rights: string[], line: RegExp) => {
    const { code, output } = await start(...rights);
    assert.deepEqual([code, line.test(output)], [1, true], output);
  };
  await says([...allowed, '&another'], /^parley: REDIS_URL: NOPERM .*channel/);
  await says([...allowed, '&parley', '-publish'], /^parley: REDIS_URL: NOPERM .*'publish'/);
  await says([...allowed, '&parley', '-ping'], /^parley: REDIS_URL: NOPERM .*'ping'/);
});

test('a process that alone cannot reach Redis misses nothing of the others', { skip, timeout: 60_000 }, async (t) => {
  const redis = await startRedis(t);
  const database = await createDatabase();
  t.after(() => database.remove());
  await command(redis, 'ACL', 'SETUSER', 'shut', 'on', '>x', '&*', '+@all');
  const first = await startServer(t, { database, settings: { REDIS_URL: redis.url } });
  const second = await startServer(t, { database, settings: { REDIS_URL: redis.url.replace('//', '//shut:x@') } });
  const [one, two] = [connect(first.url, first.apiKey), connect(second.url, second.apiKey)];
  await one.post('/v1/sessions', { session_id: 'live' });
  assert.ok((await deltasOf(one, two, 'live')) > 1);
  await command(redis, 'ACL', 'SETUSER', 'shut', 'off');
  await command(redis, 'CLIENT', 'KILL', 'USER', 'shut');
  await until(async () => second.output().includes('"msg":"Redis is not reachable: notices go through PostgreSQL"'), 5_000);
  await until(async () => (await deltasOf(one, two, 'live')) > 1, 15_000, 'live text crosses through PostgreSQL');
  await command(redis, 'ACL', 'SETUSER', 'shut', 'on');
  await until(async () => second.output().includes('"msg":"Redis is reachable again"'), 5_000);
  assert.ok((await deltasOf(one, two, 'live')) > 1);
});

test('installations that share a Redis are kept apart by the number of its database', { skip }, async (t) => {
  const redis = await startRedis(t);
  const servers = await Promise.all([0, 1].map((number) => startServer(t, { settings: { REDIS_URL: `${redis.url}/${number}` } })));
  const [one, two] = servers.map((server) => connect(server.url, server.apiKey)) as [Wire, Wire];
  for (const wire of [one, two]) await wire.post('/v1/sessions', { session_id: 'same' });
  const abort = new AbortController();
  const url = `${two.url}${managed}/same/events/stream?deltas=true`;
  const watched = await fetch(url, { headers: { authorization: `Bearer ${two.key}` }, signal: abort.signal });
  let seen = '';
  const watching = (async () => {
    for await (const piece of watched.body ?? []) seen += Buffer.from(piece).toString();
  })().catch(() => undefined);
  await one.post('/v1/sessions/same/messages', { text: '/delay 30\n/words 20' });
  await two.post('/v1/sessions/same/messages', { text: '/say mine' });
  await until(async () => seen.includes('mine'), 5_000, 'its own turn is seen');
  abort.abort();
  await watching;
  assert.doesNotMatch(seen, /river/);
});

async function command(redis: RedisServer, ...words: string[]): Promise<void> {
  const client = await createClient({ url: redis.url }).connect();
  await client.sendCommand(words);
  client.destroy();
}

async function restore(redis: RedisServer, isHang: boolean): Promise<void> {
  if (isHang) process.kill(redis.pid, 'SIGCONT');
  else await redis.start();
}

/** How many pieces of a turn of one process are seen at the other. */
async function deltasOf(one: Wire, other: Wire, id: string): Promise<number> {
  const { events } = (await one.get(`${managed}/${id}`)).body;
  const url = `${other.url}${managed}/${id}/events/stream?deltas=true&until=idle&after=${events.length}`;
  const watched = await fetch(url, { headers: { authorization: `Bearer ${other.key}` } });
  await one.post(`/v1/sessions/${id}/messages`, { text: '/delay 30\n/words 20' });
  return (await watched.text()).split('event: agent.message_delta').length - 1;
}

/** Without a notice it would come only with the next one. */
async function arrival(seen: LogEntry[], turns: number, what: string): Promise<void> {
  const ended = () => seen.filter((entry) => entry.type === 'session.status_idle').length;
  await until(async () => ended() >= turns, 8_000, `${what} at the other process`);
}

async function collect(entries: AsyncGenerator<LogEntry>, into: LogEntry[]): Promise<void> {
  try {
    for await (const entry of entries) into.push(entry);
  } catch {
    // Aborted by the test.
  }
}

/** Waits until the process says so in its metrics. */
function showsConnected(process: Wire, value: 0 | 1): Promise<void> {
  return until(async () => (await process.get('/metrics')).text.includes(`\nparley_redis_connected ${value}\n`), 15_000);
}
