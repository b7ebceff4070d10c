// Creates organizations, keys, agents and webhook endpoints over HTTP.
import assert from 'node:assert/strict';
import type { TestApp } from './app.ts';

export interface TestOrganization {
  id: number;
  slug: string;
  /** With every scope. */
  key: string;
}

let count = 0;

export async function createOrganization(parley: TestApp, slug = `org-${++count}`): Promise<TestOrganization> {
  const answer = await parley.call('POST', '/operator/organizations', { key: parley.operatorKey, body: { slug } });
  assert.equal(answer.status, 201, answer.text);
  return { id: answer.body.organization.id, slug, key: answer.body.api_key };
}

export async function createKey(parley: TestApp, key: string, scopes: string[]): Promise<string> {
  const answer = await parley.call('POST', '/api/api_keys', { key, body: { name: 'Test', scopes } });
  assert.equal(answer.status, 201, answer.text);
  return answer.body.secret;
}

/** An agent with an active release on the offline model. */
export async function createAgent(parley: TestApp, key: string, slug: string, config: Record<string, unknown> = {}): Promise<void> {
  const agent = await parley.call('POST', '/api/agents', { key, body: { slug } });
  assert.equal(agent.status, 201, agent.text);
  const release = await parley.call('POST', `/api/agents/${slug}/releases`, { key, body: { ...config, activate: true } });
  assert.equal(release.status, 201, release.text);
}

export async function operate(parley: TestApp, slug: string, changes: Record<string, unknown>): Promise<void> {
  const answer = await parley.call('PATCH', `/operator/organizations/${slug}`, { key: parley.operatorKey, body: changes });
  assert.equal(answer.status, 200, answer.text);
}

/** Nothing listens there: a request to it fails at once and does not leave the machine. */
export const deadUrl = 'http://127.0.0.1:59999/hook';

/** An endpoint that is sent every type of event and is never reached. Needs an app with PARLEY_WEBHOOK_ALLOW_PRIVATE. */
export async function createDeadEndpoint(parley: TestApp, key: string, name = 'all'): Promise<number> {
  const answer = await parley.call('POST', '/api/webhook_endpoints', { key, body: { name, url: deadUrl } });
  assert.equal(answer.status, 201, answer.text);
  return answer.body.webhook_endpoint.id;
}

/** The events that were stored for the organization's endpoints, in order. None are stored while it has no endpoint. */
export async function webhookEvents(parley: TestApp, orgId: number): Promise<{ type: string; data: unknown }[]> {
  const { db } = parley.context.database;
  return db.selectFrom('webhook_events').select(['type', 'data']).where('org_id', '=', orgId).orderBy('created_at').execute();
}

export async function auditActions(parley: TestApp, key: string): Promise<string[]> {
  const answer = await parley.call('GET', '/api/audit_events?limit=500', { key });
  assert.equal(answer.status, 200, answer.text);
  return answer.body.data.map((event: { action: string }) => event.action);
}
