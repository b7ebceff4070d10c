// An organization with one of everything, so that the path of every operation in the OpenAPI document can be filled in.
import assert from 'node:assert/strict';
import { createAgent, createDeadEndpoint, createKey, createOrganization, type TestOrganization } from './accounts.ts';
import type { TestApp } from './app.ts';
import type { Operation } from './openapi.ts';

export interface FurnishedOrganization extends TestOrganization {
  /** Part of the name of everything that it owns: an answer with this text reveals something of this organization. */
  marker: string;
  /** A key without scopes, which may only have conversations. */
  bareKey: string;
  sessionId: string;
  responseId: string;
  ids: Record<string, string>;
}

/** Needs an app with PARLEY_WEBHOOK_ALLOW_PRIVATE. */
export async function furnishOrganization(parley: TestApp, slug: string): Promise<FurnishedOrganization> {
  const organization = await createOrganization(parley, slug);
  const { key } = organization;
  const marker = `MARK-${slug}`;
  await createAgent(parley, key, 'desk', { instructions: marker });
  const made = async (path: string, body: unknown) => {
    const answer = await parley.call('POST', path, { key, body });
    assert.ok(answer.status < 300, `${path}: ${answer.text}`);
    return answer.body;
  };
  const join = async () => {
    const { token } = await made('/api/invitations', { email: `member-${slug}@example.com`, role: 'member' });
    const joined = await parley.call('POST', '/api/invitations/accept', {
      body: { token, name: marker, password: 'a long enough password' },
    });
    assert.equal(joined.status, 201, joined.text);
    return joined.body.member;
  };
  const converse = async () => {
    const session = await made(`/${slug}/desk/v1/sessions`, { metadata: { end_user_id: marker } });
    await made(`/${slug}/desk/v1/sessions/${session.id}/messages`, { text: marker });
    return session;
  };
  const hook = async () => {
    const id = await createDeadEndpoint(parley, key, marker);
    return { id, ...(await made(`/api/webhook_endpoints/${id}/test`, {})) };
  };
  const [apiKey, invitation, member, endpoint, session, response, bareKey] = await Promise.all([
    made('/api/api_keys', { name: marker, scopes: [] }),
    made('/api/invitations', { email: `invited-${slug}@example.com`, role: 'member' }),
    join(),
    hook(),
    converse(),
    made(`/${slug}/desk/v1/responses`, { input: marker }),
    createKey(parley, key, []),
    parley.call('PUT', '/api/model_credentials/openai', { key, body: { api_key: 'sk-0123456789abcdef' } }),
    parley.call('PATCH', '/api/organization', { key, body: { name: marker, default_agent: 'desk' } }),
    parley.call('PATCH', '/api/agents/desk', { key, body: { name: marker, description: marker } }),
  ]);
  return {
    ...organization,
    marker,
    bareKey,
    sessionId: session.id,
    responseId: response.id,
    ids: {
      api_keys: String(apiKey.api_key.id),
      webhook_endpoints: String(endpoint.id),
      webhook_deliveries: endpoint.delivery.id,
      invitations: String(invitation.invitation.id),
      members: String(member.id),
    },
  };
}

/** The operation's path with the ids of this organization filled in. A new path parameter must be added here. */
export function pathOf(operation: Operation, organization: FurnishedOrganization): string {
  const values: Record<string, string> = {
    slug: 'desk',
    version: '1',
    provider: 'openai',
    org: organization.slug,
    agent: 'desk',
    session_id: organization.sessionId,
    request_id: 'req_unknown',
    response_id: organization.responseId,
    model: 'desk',
  };
  return operation.path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = name === 'id' ? organization.ids[operation.path.split('/')[2] ?? ''] : values[name];
    assert.ok(value !== undefined, `${operation.name}: test/support/furnished-organization.ts has no value for {${name}}`);
    return value;
  });
}
