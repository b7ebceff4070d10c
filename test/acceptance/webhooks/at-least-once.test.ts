// No event is lost when a server is killed, whatever it was doing, and several servers do not send it several times.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { createDatabase, engine } from '../../support/engine.ts';
import { startServer } from '../../support/server-process.ts';
import { createEndpoint, createKeyEvent } from '../../support/webhook-endpoints.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const rounds = 3;
const perRound = 12;

test('every event reaches its endpoint although the server is killed again and again', async (t) => {
  const receiver = await startReceiver(t);
  const settings = { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1', PARLEY_LEASE_MS: '500' };
  const server = await startServer(t, { settings });
  const call = async (path: string, body: unknown) => {
    const headers = { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' };
    const response = await fetch(`${server.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    assert.equal(response.status, 201);
    return response.json();
  };
  await call('/api/webhook_endpoints', { name: 'Hooks', url: receiver.url, event_types: ['api_key.created'] });
  // Half of the answers never come: the server is killed with those attempts open.
  receiver.answer = (one, response) => {
    if (Number(one.body.data.name) % 2 === 0) response.writeHead(200).end();
  };
  const made: string[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const seen = receiver.received.length;
    for (let count = 0; count < perRound; count += 1) {
      const name = String(round * perRound + count);
      await call('/api/api_keys', { name, scopes: [] });
      made.push(name);
    }
    await receiver.until((received) => received.length > seen, 'a delivery of this round');
    await server.kill();
    if (round === rounds - 1) receiver.answer = 200;
    await server.start();
  }
  const arrived = () => new Set(receiver.received.map((one) => one.body.data.name));
  await receiver.until(() => made.every((name) => arrived().has(name)), 'every event');
  // A repetition carries the same id and the same bytes.
  const bytes = new Map<string, string>();
  for (const { body, text } of receiver.received) {
    assert.equal(bytes.get(body.id) ?? text, text);
    bytes.set(body.id, text);
  }
  assert.equal(bytes.size, made.length);
});

test('two processes that look for what is due at the same moment send each event once', {
  skip: engine === 'pglite' && 'the embedded engine is one process',
}, async (t) => {
  const database = await createDatabase();
  const receiver = await startReceiver(t);
  const settings = { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' };
  const apps = [await startApp(t, { settings, database }), await startApp(t, { settings, database })];
  t.after(() => database.remove());
  const [one] = apps;
  assert.ok(one);
  const org = await createOrganization(one);
  const endpoints = 4;
  for (let count = 0; count < endpoints; count += 1) await createEndpoint(one, org, receiver);
  const events = 40;
  await Promise.all(Array.from({ length: events }, (_, index) => createKeyEvent(apps[index % 2] ?? one, org)));
  await receiver.until((received) => received.length >= events * endpoints, 'every event at every endpoint');
  await Promise.all(apps.map((app) => app.context.courier.idle()));
  assert.equal(receiver.received.length, events * endpoints);
  assert.equal(new Set(receiver.received.map(({ body }) => body.id)).size, events * endpoints);
});
