// The example with tools of one's own, as docs/tools.md tells it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startApp } from '../support/app.ts';
import { startExample } from '../support/example.ts';
import { until } from '../support/until.ts';

test('a tool of an MCP server of your own is called; one that changes something asks first', async (t) => {
  const app = await startApp(t, { settings: { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
  const url = await startExample(t, 'tools', '');
  const release = readFileSync(join(import.meta.dirname, '../../examples/tools/release.json'), 'utf8');
  const body: unknown = JSON.parse(release.replace('http://127.0.0.1:8091/mcp', url));
  await app.request('POST', '/api/agents/assistant/releases', { ...Object(body), activate: true });
  await until(async () => {
    const answer = await app.request('GET', '/api/agents/assistant/releases/2');
    return answer.body.release.state === 'materialized';
  });
  await app.request('POST', '/v1/sessions', { session_id: 'shop' });
  const say = async (text: string) => (await app.request('POST', '/v1/sessions/shop/messages', { text })).body;
  assert.equal((await say('/tool shop__stock {"product":"canoe"}')).text, 'shop__stock answered: 3 left');
  assert.equal((await say('/tool shop__order {"product":"canoe"}')).pending_input.tool, 'shop__order');
});
