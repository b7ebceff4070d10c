import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDatabase, engine } from '../../support/engine.ts';
import { serveLocally } from '../../support/local-server.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';

async function call(server: ServerProcess, method: string, path: string, key: string, body?: unknown) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
}

async function until(what: string, isSo: () => Promise<boolean>, withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isSo())) {
    assert.ok(performance.now() < deadline, `${what} within ${withinMs} ms`);
    await sleep(20);
  }
}

test('what one process changes, the others know within a second', {
  skip: engine === 'pglite' && 'the embedded engine is one process',
}, async () => {
  const database = await createDatabase();
  const owner = { after };
  const one = await startServer(owner, { database });
  const two = await startServer(owner, { database });
  after(() => database.remove());

  const created = await call(one, 'POST', '/operator/organizations', one.operatorKey, { slug: 'fleet' });
  const key: string = created.body.api_key;
  assert.equal((await call(two, 'GET', '/api/agents', key)).status, 200);
  await call(one, 'PATCH', '/operator/organizations/fleet', one.operatorKey, { status: 'suspended' });
  assert.equal((await call(one, 'GET', '/api/agents', key)).status, 403, 'at once where it was made');
  await until('the other process refuses it', async () => (await call(two, 'GET', '/api/agents', key)).status === 403, 1_000);
  await call(two, 'PATCH', '/operator/organizations/fleet', one.operatorKey, { status: 'active' });
  await until('and lets it in again', async () => (await call(one, 'GET', '/api/agents', key)).status === 200, 1_000);

  await call(one, 'POST', '/api/agents', key, { slug: 'desk' });
  await call(one, 'POST', '/api/agents/desk/releases', key, { activate: true });
  const session = () => call(two, 'POST', '/fleet/desk/v1/sessions', key, {});
  assert.equal((await session()).body.agent.version, 1);
  await call(one, 'POST', '/api/agents/desk/releases', key, { activate: true });
  await until('a new release is used', async () => (await session()).body.agent.version === 2, 1_000);

  const minted = await call(one, 'POST', '/api/agents/desk/session_tokens', key, { end_user_id: 'ada' });
  const managed = await call(two, 'POST', '/fleet/desk/v1/managed-agents/sessions', minted.body.token, {});
  assert.equal(managed.status, 201, 'a token minted by one is verified by the other');

  const other = await call(one, 'POST', '/api/api_keys', key, { name: 'k', scopes: ['agents:read'] });
  assert.equal((await call(two, 'GET', '/api/agents', other.body.secret)).status, 200);
  await call(one, 'DELETE', `/api/api_keys/${other.body.api_key.id}`, key);
  await until('a revoked key is refused', async () => (await call(two, 'GET', '/api/agents', other.body.secret)).status === 401, 1_000);
});

test('a process that dies in a turn leaves nothing reserved, and an unfinished release is finished by the next', async () => {
  let answers = false;
  const upstream = await serveLocally((_request, response) => {
    if (answers) response.writeHead(500).end();
  });
  after(() => upstream.close());
  const server = await startServer({ after }, { settings: { PARLEY_LEASE_MS: '1000', PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
  const { apiKey } = server;
  const budget = async () => (await call(server, 'GET', '/api/budget', apiKey)).body.budget;
  await call(server, 'PATCH', '/operator/organizations/demo', server.operatorKey, { total_tokens_cap: 100_000, credits_micros: 1_000_000 });
  const session = await call(server, 'POST', '/demo/assistant/v1/sessions', apiKey, {});
  const turn = call(server, 'POST', `/demo/assistant/v1/sessions/${session.body.id}/messages`, apiKey, { text: '/delay 100\n/words 20' });
  turn.catch(() => {});
  await until('the turn has reserved', async () => (await budget()).reserved_tokens > 0, 5_000);
  const release = await call(server, 'POST', '/api/agents/assistant/releases', apiKey, {
    mcp_servers: [{ name: 'slow', url: `${upstream.origin}/mcp` }],
  });
  const path = `/api/agents/assistant/releases/${release.body.release.version}`;
  const state = async () => (await call(server, 'GET', path, apiKey)).body.release.state;
  await until('it waits for the server', async () => upstream.connections() > 0, 5_000);
  assert.equal(await state(), 'materializing');
  await server.kill();
  answers = true;
  await server.start();
  await until('the reservation is gone', async () => (await budget()).reserved_tokens === 0, 20_000);
  const settled = await budget();
  assert.equal(settled.reserved_micros, 0);
  assert.ok(settled.tokens_used > 0, 'what was used is counted');
  await until('the release is decided', async () => (await state()) === 'failed', 30_000);
});
