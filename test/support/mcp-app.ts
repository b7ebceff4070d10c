// An application whose agents use a real MCP server, which wants a credential.
import assert from 'node:assert/strict';
import { type Owner, startApp } from './app.ts';
import { createDatabase } from './engine.ts';
import { startMcpServer } from './mcp-server.ts';
import { until } from './until.ts';

export const secret = 'crm-secret-token-5521';

export async function startAppWithMcp(owner: Owner) {
  const server = await startMcpServer(secret);
  const database = await createDatabase();
  const options = { database, settings: { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1', PARLEY_LEASE_MS: '2000' } };
  const app = await startApp(owner, options);
  owner.after(async () => server.close());
  owner.after(() => database.remove());
  const stored = async (method: 'PUT' | 'POST', path: string, body: unknown, status: number): Promise<void> => {
    const answer = await app.request(method, path, body);
    assert.equal(answer.status, status, answer.text);
  };
  await stored('PUT', '/api/model_credentials/crm_token', { api_key: secret }, 200);
  return {
    app,
    /** With these, another application is started on the same database. */
    options,
    server,
    /** The server as a release names it. */
    crm: { name: 'crm', url: server.url, credential: 'crm_token' },
    stored,
    /** Creates an agent with an active release, and waits until it is materialized. */
    async release(slug: string, config: Record<string, unknown>): Promise<void> {
      await stored('POST', '/api/agents', { slug }, 201);
      await stored('POST', `/api/agents/${slug}/releases`, { ...config, activate: true }, 201);
      await until(async () => {
        const { data } = JSON.parse((await app.request('GET', `/api/agents/${slug}/releases`)).text);
        assert.notEqual(data[0].state, 'failed');
        return data[0].state === 'materialized';
      });
    },
  };
}
