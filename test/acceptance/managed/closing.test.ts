// Streams that the server ends, and streams that it keeps.
// One engine: this is about how the log is shown on a wire.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { startApp, type TestApp } from '../../support/app.ts';
import { createDatabase, engine } from '../../support/engine.ts';
import { collect, ManagedClient, mintToken, readUntil } from '../../support/managed.ts';
import { until } from '../../support/until.ts';

test('an expired token ends its stream after 60 s of grace with a frame that says so', async (t) => {
  let now = Date.now();
  const app = await startApp(t, { clock: { now: () => new Date(now) } });
  const client = new ManagedClient(app, await mintToken(app, { end_user_id: 'alice', ttl_seconds: 60 }));
  const id = await client.create();
  const stream = await client.follow(id);
  const iterator = stream[Symbol.asyncIterator]();
  now += 115_000;
  await new ManagedClient(app).say(id, '/say still there');
  await readUntil(iterator, ({ event }) => event === 'session.status_idle');
  assert.equal((await client.request('GET', `/sessions/${id}`)).status, 401, 'the token opens nothing any more');
  app.context.directory.invalidate('all');
  now += 6_000;
  const [closing] = await readUntil(iterator, () => true);
  assert.equal(closing?.event, 'stream.closed');
  assert.equal(closing?.data.reason, 'token_expired');
  assert.equal(closing?.data.seq, undefined);
  assert.equal((await iterator.next()).done, true);
  await closedStreams(app);
});

test('revoking a key closes its streams and no others', async (t) => {
  const app = await startApp(t);
  const minted = await app.request('POST', '/api/api_keys', { name: 'Doomed', scopes: [] });
  const { api_key: key, secret } = minted.body;
  const doomed = new ManagedClient(app, secret);
  const safe = new ManagedClient(app);
  const id = await safe.create();
  const [ending, staying] = [await doomed.follow(id), await safe.follow(id)];
  assert.equal((await app.request('DELETE', `/api/api_keys/${key.id}`)).status, 204);
  const frames = await collect(ending);
  assert.equal(frames.at(-1)?.data.reason, 'credential_revoked');
  await safe.say(id, '/say still here');
  await readUntil(staying[Symbol.asyncIterator](), ({ event }) => event === 'session.status_idle');
  staying.leave();
});

test('streams are looked at once for changes that come together, and once more for one that comes meanwhile', async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const stream = await client.follow(await client.create());
  const { directory } = app.context;
  const looks = t.mock.method(directory, 'agentById');
  for (let count = 0; count < 20; count += 1) directory.invalidate(1);
  await until(async () => looks.mock.callCount() === 2);
  stream.leave();
  await closedStreams(app);
  assert.equal(looks.mock.callCount(), 2);
});

test('suspending an organization closes its streams', async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app, await mintToken(app, { end_user_id: 'alice' }));
  const stream = await client.follow(await client.create());
  const operator = { authorization: `Bearer ${app.operatorKey}` };
  assert.equal((await app.request('PATCH', '/operator/organizations/demo', { status: 'suspended' }, operator)).status, 200);
  assert.equal((await collect(stream)).at(-1)?.data.reason, 'credential_revoked');
});

test('suspending an organization closes its streams a little later where the database could not be asked, or one was just being opened', {
  timeout: 20_000,
}, async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  for (const isBeingOpened of [true, false]) {
    const app = await startApp(t);
    const client = new ManagedClient(app, await mintToken(app, { end_user_id: 'alice' }));
    const id = await client.create();
    const { directory, tokens } = app.context;
    const suspend = () => app.call('PATCH', '/operator/organizations/demo', { key: app.operatorKey, body: { status: 'suspended' } });
    const find = directory.agentBySlug.bind(directory);
    const suspended = t.mock.method(directory, 'agentBySlug', async (orgId: number, slug: string) => {
      const found = await find(orgId, slug);
      if (isBeingOpened) await suspend();
      return found;
    });
    const stream = await client.follow(id);
    suspended.mock.restore();
    const asked = t.mock.method(tokens, 'verify', () => Promise.reject(new Error('the database is away')), { times: 1 });
    if (!isBeingOpened) await suspend();
    await until(async () => asked.mock.callCount() === (isBeingOpened ? 0 : 1));
    asked.mock.restore();
    assert.equal(app.server.streams.size, 1);
    t.mock.timers.tick(15_000);
    assert.equal((await collect(stream)).at(-1)?.data.reason, 'credential_revoked');
  }
});

test('deleting an agent closes its streams, also those of a key, and no others', { timeout: 20_000 }, async (t) => {
  const app = await startApp(t);
  await app.request('POST', '/api/agents', { slug: 'doomed' });
  await app.request('POST', '/api/agents/doomed/releases', { activate: true });
  const [doomed, safe] = [new ManagedClient(app, undefined, 'demo/doomed'), new ManagedClient(app)];
  const id = await safe.create();
  const [ending, staying] = [await doomed.follow(await doomed.create()), await safe.follow(id)];
  assert.equal((await app.request('DELETE', '/api/agents/doomed')).status, 204);
  assert.equal((await collect(ending)).at(-1)?.data.reason, 'session_deleted');
  await safe.say(id, '/say still here');
  await readUntil(staying[Symbol.asyncIterator](), ({ event }) => event === 'session.status_idle');
  staying.leave();
});

test('a key revoked by another process closes its streams here', { skip: engine === 'pglite' && 'one process owns PGlite' }, async (t) => {
  const database = await createDatabase();
  const here = await startApp(t, { database });
  const there = await startApp(t, { database });
  t.after(() => database.remove());
  const minted = await here.request('POST', '/api/api_keys', { name: 'Doomed', scopes: [] });
  const { api_key: key, secret } = minted.body;
  const client = new ManagedClient(here, secret);
  const stream = await client.follow(await client.create());
  assert.equal((await there.request('DELETE', `/api/api_keys/${key.id}`)).status, 204);
  assert.equal((await collect(stream)).at(-1)?.data.reason, 'credential_revoked');
});

test('closing the server ends every stream with a frame that says so', async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const stream = await client.follow(await client.create());
  const frames = collect(stream);
  app.server.streams.close();
  assert.equal((await frames).at(-1)?.data.reason, 'server_shutdown');
});

test('a stream whose log cannot be read ends with a frame that says so', { timeout: 20_000 }, async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const session = await client.create();
  await client.say(session, '/say one');
  await app.context.runner.idle();
  t.mock.method(app.context.log, 'readPage', () => Promise.reject(new Error('the database is away')));
  assert.equal((await collect(await client.follow(session))).at(-1)?.data.reason, 'database_unavailable');
});

test('a stream ends when its session is dropped, with a frame that says so', { timeout: 20_000 }, async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const base = `${await app.listen()}/demo/assistant/v1/responses`;
  const headers = { authorization: `Bearer ${app.apiKey}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ input: '/delay 20\n/words 8', stream: true, store: false });
  const unstored = await fetch(base, { method: 'POST', headers, body });
  const stream = await client.follow(unstored.headers.get('x-svc-session') ?? '');
  const [idle, closing] = (await collect(stream)).slice(-2);
  assert.deepEqual([idle?.event, closing?.event, closing?.data.reason], ['session.status_idle', 'stream.closed', 'session_deleted']);
  await unstored.text();
  await endsWhenDeleted(app, app);
});

test('a stream that is opened at the moment at which its session is dropped ends too', { timeout: 20_000 }, async (t) => {
  const app = await startApp(t);
  const given = await app.request('POST', '/demo/assistant/v1/responses', { input: '/say soon gone' });
  const id = String(given.headers['x-svc-session']);
  const { feed, log } = app.context;
  const { readPage } = log;
  // As if the watchers had been told before the stream was one of them.
  t.mock.method(feed, 'drop', () => {});
  t.mock.method(log, 'readPage', async (sessionId: string, after: number) => {
    await app.request('DELETE', `/demo/assistant/v1/responses/${given.body.id}`);
    return readPage.call(log, sessionId, after);
  });
  assert.equal((await collect(await new ManagedClient(app).follow(id))).at(-1)?.data.reason, 'session_deleted');
});

test('a stream in another process ends too when its session is dropped', {
  skip: engine === 'pglite' && 'one process owns PGlite',
  timeout: 20_000,
}, async (t) => {
  const database = await createDatabase();
  const here = await startApp(t, { database });
  const there = await startApp(t, { database });
  t.after(() => database.remove());
  await endsWhenDeleted(here, there);
});

test('a comment keeps an idle stream alive every 15 s', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const id = await client.create();
  const stream = await client.follow(id, '?until=idle');
  const frames = collect(stream);
  for (let second = 0; second < 45; second += 1) {
    t.mock.timers.tick(1_000);
    // What was written leaves for the socket meanwhile.
    await sleep(2);
  }
  t.mock.timers.reset();
  await client.say(id, '/say done');
  await frames;
  assert.deepEqual(stream.comments, ['keep-alive', 'keep-alive', 'keep-alive']);
});

test('a reader that takes nothing is cut, holds a bounded amount, and hurts no other', async (t) => {
  const app = await startApp(t, { settings: { PARLEY_STREAM_STALL_MS: '300' } });
  const client = new ManagedClient(app);
  const id = await client.create();
  const url = new URL(await app.listen());
  const socket = connect(Number(url.port), url.hostname);
  socket.pause();
  socket.write(`GET ${client.base}/sessions/${id}/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${app.apiKey}\r\n\r\n`);
  const reader = await client.follow(id);
  const iterator = reader[Symbol.asyncIterator]();
  const big = 'x'.repeat(190_000);
  for (let turn = 0; turn < 60 && app.server.streams.size === 2; turn += 1) {
    await client.say(id, `/say ${big}`);
    await readUntil(iterator, ({ event }) => event === 'session.status_idle');
  }
  await until(async () => app.server.streams.size < 2);
  assert.equal(app.server.streams.size, 1, 'the stalled reader is gone, the other is not');
  socket.destroy();
  reader.leave();
  const entries = (await client.state(id)).events;
  assert.deepEqual(
    entries.map((entry) => entry.seq),
    entries.map((_, index) => index + 1),
  );
});

test('a client that leaves while its stream is being opened leaves nothing behind', async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const id = await client.create();
  const url = new URL(await app.listen());
  const { directory } = app.context;
  const findAgent = directory.agentBySlug.bind(directory);
  const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  t.mock.method(directory, 'agentBySlug', async (orgId: number, slug: string) => {
    asked.resolve();
    await answered.promise;
    return findAgent(orgId, slug);
  });
  const opened = t.mock.method(app.server.streams, 'add');
  const socket = connect(Number(url.port), url.hostname);
  socket.write(`GET ${client.base}/sessions/${id}/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${app.apiKey}\r\n\r\n`);
  await asked.promise;
  socket.destroy();
  const countConnections = promisify(app.server.server.getConnections.bind(app.server.server));
  await until(async () => (await countConnections()) === 0);
  answered.resolve();
  await until(async () => opened.mock.callCount() === 1);
  await closedStreams(app);
  assert.equal(app.context.feed.watcherCount, 0);
});

async function closedStreams(app: { server: { streams: { size: number } } }): Promise<void> {
  await until(async () => app.server.streams.size === 0);
}

/** Follows a session `here` while its only response is deleted `there`. */
async function endsWhenDeleted(here: TestApp, there: TestApp): Promise<void> {
  const given = await there.request('POST', '/demo/assistant/v1/responses', { input: '/say soon gone' });
  const stream = await new ManagedClient(here).follow(String(given.headers['x-svc-session']));
  const iterator = stream[Symbol.asyncIterator]();
  await readUntil(iterator, ({ event }) => event === 'session.status_idle');
  assert.equal((await there.request('DELETE', `/demo/assistant/v1/responses/${given.body.id}`)).status, 200);
  const [closing] = await readUntil(iterator, () => true);
  assert.deepEqual([closing?.event, closing?.data.reason], ['stream.closed', 'session_deleted']);
  assert.equal((await iterator.next()).done, true);
}
