import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createDatabase, engine } from '../../support/engine.ts';
import { serveLocally } from '../../support/local-server.ts';
import { startServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { connect } from '../../support/wire.ts';

test('what one process changes, the others know within a second', {
  skip: engine === 'pglite' && 'the embedded engine is one process',
}, async () => {
  const database = await createDatabase();
  const owner = { after };
  const one = await startServer(owner, { database });
  const two = await startServer(owner, { database });
  after(() => database.remove());

  const created = await connect(one.url, one.operatorKey).post('/operator/organizations', { slug: 'fleet' });
  const key: string = created.body.api_key;
  const [atOne, atTwo] = [connect(one.url, key), connect(two.url, key)];
  assert.equal((await atTwo.get('/api/agents')).status, 200);
  await connect(one.url, one.operatorKey).patch('/operator/organizations/fleet', { status: 'suspended' });
  assert.equal((await atOne.get('/api/agents')).status, 403, 'at once where it was made');
  await until(async () => (await atTwo.get('/api/agents')).status === 403, 1_000, 'the other process refuses it');
  await connect(two.url, one.operatorKey).patch('/operator/organizations/fleet', { status: 'active' });
  await until(async () => (await atOne.get('/api/agents')).status === 200, 1_000, 'and lets it in again');

  await atOne.post('/api/agents', { slug: 'desk' });
  await atOne.post('/api/agents/desk/releases', { activate: true });
  const session = () => atTwo.post('/fleet/desk/v1/sessions', {});
  assert.equal((await session()).body.agent.version, 1);
  await atOne.post('/api/agents/desk/releases', { activate: true });
  await until(async () => (await session()).body.agent.version === 2, 1_000, 'a new release is used');

  // The first two tokens of the installation, for which one key must be made and not two.
  const minted = await Promise.all([atOne, atTwo].map((wire) => wire.post('/api/agents/desk/session_tokens', { end_user_id: 'ada' })));
  for (const [index, { url }] of [two, one].entries()) {
    const managed = await connect(url, minted[index]?.body.token).post('/fleet/desk/v1/managed-agents/sessions', {});
    assert.equal(managed.status, 201, 'a token minted by one is verified by the other');
  }

  const other = await atOne.post('/api/api_keys', { name: 'k', scopes: ['agents:read'] });
  assert.equal((await connect(two.url, other.body.secret).get('/api/agents')).status, 200);
  await atOne.delete(`/api/api_keys/${other.body.api_key.id}`);
  await until(async () => (await connect(two.url, other.body.secret).get('/api/agents')).status === 401, 1_000, 'a revoked key is refused');
});

test('a process that dies in a turn leaves nothing reserved, and an unfinished release is finished by the next', async () => {
  let answers = false;
  const upstream = await serveLocally((_request, response) => {
    if (answers) response.writeHead(500).end();
  });
  after(() => upstream.close());
  const server = await startServer({ after }, { settings: { PARLEY_LEASE_MS: '1000', PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
  const wire = connect(server.url, server.apiKey);
  const budget = async () => (await wire.get('/api/budget')).body.budget;
  await connect(server.url, server.operatorKey).patch('/operator/organizations/demo', {
    total_tokens_cap: 100_000,
    credits_micros: 1_000_000,
  });
  const session = await wire.post('/demo/assistant/v1/sessions', {});
  const turn = wire.post(`/demo/assistant/v1/sessions/${session.body.id}/messages`, {
    text: '/delay 100\n/words 20',
  });
  turn.catch(() => {});
  await until(async () => (await budget()).reserved_tokens > 0, 5_000, 'the turn has reserved');
  const release = await wire.post('/api/agents/assistant/releases', {
    mcp_servers: [{ name: 'slow', url: `${upstream.origin}/mcp` }],
  });
  const path = `/api/agents/assistant/releases/${release.body.release.version}`;
  const state = async () => (await wire.get(path)).body.release.state;
  await until(async () => upstream.connections() > 0, 5_000, 'it waits for the server');
  assert.equal(await state(), 'materializing');
  await server.kill();
  answers = true;
  await server.start();
  await until(async () => (await budget()).reserved_tokens === 0, 20_000, 'the reservation is gone');
  const settled = await budget();
  assert.equal(settled.reserved_micros, 0);
  assert.ok(settled.tokens_used > 0, 'what was used is counted');
  await until(async () => (await state()) === 'failed', 30_000, 'the release is decided');
});
