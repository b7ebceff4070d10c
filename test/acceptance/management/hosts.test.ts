// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';

const hosts = { base: 'api.example.com', agent: 'agents.example.com', management: 'manage.example.com' };
const split = { PARLEY_BASE_HOST: hosts.base, PARLEY_AGENT_HOST: hosts.agent, PARLEY_MANAGEMENT_HOST: 'Manage.Example.com' };
const parley = await startApp({ after }, { settings: { ...split, PARLEY_GATEWAY: '1', PARLEY_TRUST_PROXY: '127.0.0.1, 10.0.0.0/8' } });

test('with split hosts each family answers on its own; the audit log and the types of webhooks on two', async () => {
  const cases: [path: string, on: (keyof typeof hosts)[]][] = [
    ['/api/agents', ['management']],
    ['/api/audit_events', ['base', 'management']],
    ['/api/audit_events.csv', ['base', 'management']],
    ['/api/webhook_endpoints', ['base', 'management']],
    ['/openapi.json', ['management']],
    ['/demo/assistant/v1/sessions', ['agent']],
    ['/.well-known/jwks.json', ['base', 'agent', 'management']],
    ['/healthz', ['base', 'agent', 'management']],
  ];
  for (const [path, on] of cases) {
    for (const [family, host] of Object.entries(hosts)) {
      const answer = await parley.call('GET', path, { key: parley.apiKey, headers: { host } });
      const expected = on.some((name) => name === family) ? 200 : 404;
      assert.equal(answer.status, expected, `${path} on ${host}`);
      if (expected === 404) assert.equal(answer.text, '{"detail":"Not Found"}');
    }
  }
  const posts: [path: string, on: keyof typeof hosts, status: number][] = [
    ['/v1/sessions', 'base', 200],
    ['/v1/gateway/events', 'base', 422],
    ['/v1/gateway/deliveries', 'base', 422],
    ['/demo/assistant/v1/managed-agents/sessions', 'agent', 201],
    ['/demo/assistant/v1/chat/completions', 'agent', 200],
    ['/demo/assistant/v1/responses', 'agent', 422],
    ['/api/agents/assistant/session_tokens', 'management', 200],
    ['/operator/organizations', 'management', 401],
  ];
  for (const [path, on, status] of posts) {
    for (const [family, host] of Object.entries(hosts)) {
      const answer = await parley.call('POST', path, { key: parley.apiKey, body: {}, headers: { host } });
      assert.equal(answer.status, family === on ? status : 404, `${path} on ${host}: ${answer.text}`);
    }
  }
});

test("a family without a host of its own answers anywhere but on another's, at any port", async (t) => {
  const split = await startApp(t, { settings: { PARLEY_MANAGEMENT_HOST: '[::1]' } });
  const status = async (path: string, host: string) => (await split.call('GET', path, { key: split.apiKey, headers: { host } })).status;
  assert.equal(await status('/demo/assistant/v1/sessions', 'anything.example.com'), 200);
  assert.equal(await status('/api/agents', 'anything.example.com'), 404);
  for (const host of ['[::1]', '[::1]:8080']) {
    assert.equal(await status('/demo/assistant/v1/sessions', host), 404, host);
    assert.equal(await status('/api/agents', host), 200, host);
  }
});

test('behind proxies that are trusted, the caller is who the first of them heard from; what a caller says itself does not count', async () => {
  const headers = { host: hosts.base, 'x-forwarded-for': '192.0.2.1, 203.0.113.9, 10.1.2.3' };
  const { body } = await parley.call('GET', '/api/audit_events?limit=1', { key: parley.apiKey, headers });
  assert.equal(body.data[0].ip_address, '203.0.113.9');
  const forwarded = { host: hosts.base, 'x-forwarded-host': hosts.management };
  assert.equal((await parley.call('GET', '/api/agents', { key: parley.apiKey, headers: forwarded })).status, 404);
});
