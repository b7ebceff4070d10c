import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { allScopes } from '../../../src/accounts/scopes.ts';
import { createKey, createOrganization } from '../../support/accounts.ts';
import { type Call, startApp } from '../../support/app.ts';
import { browserOf, password } from '../../support/members.ts';

const parley = await startApp({ after });
const acme = await createOrganization(parley, 'acme');

test('an invitation is given no role that whoever has its link could not grant', async () => {
  const league = await createOrganization(parley, 'league');
  const owner = await browserOf(parley, league, 'league-owner@example.com', 'owner');
  const admin = await browserOf(parley, league, 'league-admin@example.com', 'admin');
  const reader = await createKey(parley, league.key, [...allScopes.filter((scope) => scope.endsWith(':read')), 'members:write']);
  const invite = (caller: Call, email: string, role: string) =>
    parley.call('POST', '/api/invitations', { ...caller, body: { email, role } });
  const raise = (id: number, role: string) => parley.call('PATCH', `/api/invitations/${id}`, { headers: owner, body: { role } });
  for (const [caller, role, above] of [
    [{ headers: admin }, 'admin', 'owner'],
    [{ key: reader }, 'member', 'admin'],
  ] as const) {
    const { invitation } = (await invite(caller, `${above}@example.com`, role)).body;
    const raised = await raise(invitation.id, above);
    assert.deepEqual([raised.status, /has its link/.test(raised.body.detail)], [409, true]);
    assert.equal((await raise(invitation.id, 'member')).status, 200);
    assert.equal((await raise(invitation.id, role)).status, 200);
  }

  const once = { 'idempotency-key': 'invite-boss' };
  const made = await invite({ headers: { ...owner, ...once } }, 'boss@example.com', 'admin');
  const repeated = await invite({ headers: { ...admin, ...once } }, 'boss@example.com', 'admin');
  assert.deepEqual([repeated.status, repeated.text.includes('inv_')], [403, false], 'an owner’s link is not for an admin');
  assert.equal((await invite({ key: league.key, headers: once }, 'boss@example.com', 'admin')).body.token, made.body.token);
  assert.equal((await raise(made.body.invitation.id, 'owner')).status, 200);
  const joined = await parley.call('POST', '/api/invitations/accept', { body: { token: made.body.token, name: 'Boss', password } });
  assert.equal(joined.body.member.role, 'owner');
});

test('an invitation can be withdrawn, names nobody twice, and is nobody else’s', async () => {
  const other = await createOrganization(parley, 'inviters');
  const invited = await parley.call('POST', '/api/invitations', { key: acme.key, body: { email: 'late@example.com' } });
  assert.equal(invited.body.invitation.role, 'member');
  const path = `/api/invitations/${invited.body.invitation.id}`;
  const fetched = await parley.call('GET', path, { key: acme.key });
  assert.deepEqual([fetched.status, fetched.body], [200, { invitation: invited.body.invitation }]);
  const raised = await parley.call('PATCH', path, { key: acme.key, body: { role: 'admin' } });
  assert.deepEqual([raised.status, raised.body], [200, { invitation: { ...invited.body.invitation, role: 'admin' } }]);
  assert.equal((await parley.call('PATCH', path, { key: acme.key, body: { role: 'king' } })).status, 422);
  const narrow = await createKey(parley, acme.key, ['members:read', 'members:write']);
  assert.equal(
    (await parley.call('PATCH', path, { key: narrow, body: { role: 'member' } })).status,
    403,
    'nor takes what they could not give',
  );
  assert.equal((await parley.call('DELETE', path, { key: narrow })).status, 403);
  const changed = (await parley.call('GET', '/api/audit_events?event_action=member.role_changed', { key: acme.key })).body.data[0];
  assert.deepEqual(
    [changed.subject_type, changed.metadata],
    ['invitation', { email: 'late@example.com', role: 'admin', previous_role: 'member' }],
  );
  const { created_at, expires_at } = invited.body.invitation;
  assert.equal(Date.parse(expires_at) - Date.parse(created_at), 7 * 24 * 3_600_000);
  assert.equal((await parley.call('DELETE', path, { key: other.key })).status, 404);
  assert.equal((await parley.call('DELETE', path, { key: acme.key })).status, 204);
  assert.equal((await parley.call('GET', path, { key: acme.key })).status, 404);
  assert.equal((await parley.call('DELETE', path, { key: acme.key })).status, 404);
  const { data } = (await parley.call('GET', '/api/audit_events?event_action=member.removed', { key: acme.key })).body;
  const { subject_type, metadata } = data[0];
  assert.deepEqual([subject_type, metadata.email, metadata.withdrawn], ['invitation', invited.body.invitation.email, true]);
  const late = await parley.call('POST', '/api/invitations/accept', { body: { token: invited.body.token, name: 'x', password } });
  assert.equal(late.status, 404);
  await browserOf(parley, acme, 'member@example.com', 'member');
  const twice = await parley.call('POST', '/api/invitations', { key: acme.key, body: { email: 'MEMBER@example.com' } });
  assert.equal(twice.status, 409);
});

test('an invitation that has expired is gone: it is neither fetched nor changed nor withdrawn', async () => {
  const invited = await parley.call('POST', '/api/invitations', { key: acme.key, body: { email: 'slow@example.com' } });
  const { id } = invited.body.invitation;
  await parley.context.database.db
    .updateTable('invitations')
    .set({ expires_at: new Date(0) })
    .where('id', '=', id)
    .execute();
  const asked: [method: 'GET' | 'PATCH' | 'DELETE', body?: object][] = [['GET'], ['PATCH', { role: 'admin' }], ['DELETE']];
  for (const [method, body] of asked)
    assert.equal((await parley.call(method, `/api/invitations/${id}`, { key: acme.key, body })).status, 404, method);
});

test('nobody joins with an address that they could not sign in with', async () => {
  const refusal = [422, { detail: 'email: must be an email address such as ada@example.com' }];
  for (const email of ['nonsense', 'admin@localhost', 'a@b', 'ünal@example.com', 'a@exämple.com', 'a..b@example.com', '"a"@example.com']) {
    const invited = await parley.call('POST', '/api/invitations', { key: acme.key, body: { email } });
    assert.deepEqual([invited.status, invited.body], refusal, email);
  }
  for (const email of ["o'neil+test@mail.example.com", 'A_B-c.d@EXAMPLE.co'])
    assert.ok((await browserOf(parley, acme, email, 'member')).cookie, email);
  const invited = await parley.call('POST', '/operator/organizations/acme/invitations', { key: parley.operatorKey, body: {} });
  const body = { token: invited.body.token, name: 'Ada', password, email: 'admin@localhost' };
  const joined = await parley.call('POST', '/api/invitations/accept', { body });
  assert.deepEqual([joined.status, joined.body], refusal);
  const again = await parley.call('POST', '/api/invitations/accept', { body: { ...body, email: 'admin@example.org' } });
  assert.equal(again.status, 201, 'the link still works');
});
