// Members of an organization, who join by invitation and sign in over HTTP as a browser does.
import assert from 'node:assert/strict';
import type { TestOrganization } from './accounts.ts';
import type { TestApp } from './app.ts';

export const password = 'correct horse battery staple';

/** Makes someone join by invitation and signs them in. Returns the headers that their browser sends. */
export async function browserOf(
  parley: TestApp,
  organization: TestOrganization,
  email: string,
  role: string,
): Promise<Record<string, string>> {
  const invited = await parley.call('POST', '/api/invitations', { key: organization.key, body: { email, role } });
  assert.equal(invited.status, 201, invited.text);
  const joined = await parley.call('POST', '/api/invitations/accept', { body: { token: invited.body.token, name: 'Someone', password } });
  assert.equal(joined.status, 201, joined.text);
  return signIn(parley, email);
}

export async function signIn(parley: TestApp, email: string): Promise<Record<string, string>> {
  const answer = await parley.call('POST', '/auth/sign-in/email', { body: { email, password } });
  assert.equal(answer.status, 200, answer.text);
  const cookie = String(answer.headers['set-cookie']).split(';')[0] ?? '';
  return { cookie, 'x-parley-dashboard': '1' };
}
