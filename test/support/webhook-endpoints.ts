// Creates webhook endpoints and events for them, and reads their deliveries.
import assert from 'node:assert/strict';
import type { TestOrganization } from './accounts.ts';
import type { TestApp } from './app.ts';
import type { Receiver } from './webhook-receiver.ts';

export interface Endpoint {
  id: number;
  secret: string;
  path: string;
}

export async function createEndpoint(parley: TestApp, org: TestOrganization, receiver: Receiver, types: string[] = []): Promise<Endpoint> {
  const answer = await parley.call('POST', '/api/webhook_endpoints', {
    key: org.key,
    body: { name: 'Hooks', url: receiver.url, event_types: types },
  });
  assert.equal(answer.status, 201, answer.text);
  const { id } = answer.body.webhook_endpoint;
  return { id, secret: answer.body.secret, path: `/api/webhook_endpoints/${id}` };
}

/** The deliveries of an endpoint, after all that are due have been attempted. */
export async function deliveriesOf(parley: TestApp, org: TestOrganization, endpoint: Endpoint) {
  await parley.context.courier.idle();
  const answer = await parley.call('GET', `${endpoint.path}/deliveries`, { key: org.key });
  assert.equal(answer.status, 200, answer.text);
  return answer.body.data;
}

/** Causes one event of the type `api_key.created`. */
export async function createKeyEvent(parley: TestApp, org: TestOrganization): Promise<void> {
  const answer = await parley.call('POST', '/api/api_keys', { key: org.key, body: { name: 'Event', scopes: [] } });
  assert.equal(answer.status, 201);
}
