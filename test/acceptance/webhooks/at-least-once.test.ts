// No event is lost when a server is killed, whatever it was doing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startServer } from '../../support/server-process.ts';
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
