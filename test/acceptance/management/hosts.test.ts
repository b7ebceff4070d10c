import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';

const hosts = { base: 'api.example.com', agent: 'agents.example.com', management: 'manage.example.com' };
const parley = await startApp(
  { after },
  { settings: { PARLEY_BASE_HOST: hosts.base, PARLEY_AGENT_HOST: hosts.agent, PARLEY_MANAGEMENT_HOST: 'Manage.Example.com' } },
);

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
});

test("a family without a host of its own answers anywhere but on another's", async (t) => {
  const split = await startApp(t, { settings: { PARLEY_MANAGEMENT_HOST: hosts.management } });
  const status = async (path: string, host: string) => (await split.call('GET', path, { key: split.apiKey, headers: { host } })).status;
  assert.equal(await status('/demo/assistant/v1/sessions', 'anything.example.com'), 200);
  assert.equal(await status('/demo/assistant/v1/sessions', hosts.management), 404);
  assert.equal(await status('/api/agents', hosts.management), 200);
  assert.equal(await status('/api/agents', 'anything.example.com'), 404);
});
