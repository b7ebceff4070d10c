import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { allScopes } from '../../../src/accounts/scopes.ts';
import { createOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';
import { browserOf, password, signIn } from '../../support/members.ts';
import { until } from '../../support/until.ts';

const parley = await startApp({ after });
const acme = await createOrganization(parley, 'acme');

test('the first owner joins with the link of the first start; whoever has joined hears so again, anyone else that it is gone', async () => {
  const token = parley.context.seeded.ownerToken ?? '';
  const body = { token, name: 'Owner', password, email: 'Owner@Example.com' };
  assert.equal((await parley.call('POST', '/api/invitations/accept', { body: { ...body, email: undefined } })).status, 422);
  const joined = await parley.call('POST', '/api/invitations/accept', { body });
  assert.deepEqual([joined.status, joined.body.member.role, joined.body.member.email], [201, 'owner', 'owner@example.com']);
  const again = await parley.call('POST', '/api/invitations/accept', { body });
  assert.deepEqual([again.status, again.text], [201, joined.text]);
  for (const other of [{ password: 'another password' }, { email: 'other@example.com' }, { email: undefined }]) {
    const gone = await parley.call('POST', '/api/invitations/accept', { body: { ...body, ...other } });
    assert.deepEqual([gone.status, gone.text], [404, '{"detail":"Not Found"}']);
  }
  const audited = await parley.call('GET', '/api/audit_events?event_action=member.joined', { key: parley.apiKey });
  assert.equal(audited.body.data.length, 1);
  const session = await parley.call('GET', '/dashboard/session', { headers: await signIn(parley, 'owner@example.com') });
  assert.equal(session.status, 200);
  assert.deepEqual([session.body.user.email, session.body.organization.slug, session.body.role], ['owner@example.com', 'demo', 'owner']);
  assert.ok(session.body.scopes.includes('api_keys:write'));
});

test('a member reads, an admin manages, and what they did is on record under their e-mail', async () => {
  const member = await browserOf(parley, acme, 'member@example.com', 'member');
  const admin = await browserOf(parley, acme, 'admin@example.com', 'admin');
  assert.equal((await parley.call('GET', '/api/agents', { headers: member })).status, 200);
  assert.equal((await parley.call('POST', '/api/agents', { headers: member, body: { slug: 'x' } })).status, 403);
  assert.equal((await parley.call('GET', '/api/audit_events', { headers: member })).status, 403);
  const created = await parley.call('POST', '/api/agents', { headers: admin, body: { slug: 'by-admin' } });
  assert.equal(created.status, 201, created.text);
  const { data } = (await parley.call('GET', '/api/audit_events?event_action=agent.created', { key: acme.key })).body;
  const event = data.find((entry: { metadata: { slug: string } }) => entry.metadata.slug === 'by-admin');
  assert.deepEqual([event.actor_email, event.api_key_prefix], ['admin@example.com', null]);
  const { user } = (await parley.call('GET', '/dashboard/session', { headers: admin })).body;
  const own = await parley.call('GET', `/api/audit_events?user_id=${user.id}`, { key: acme.key });
  assert.ok(own.body.data.length > 0 && own.body.data.every((entry: { actor_email: string }) => entry.actor_email === 'admin@example.com'));
});

test('an admin cannot remove or change someone who is made an owner at that moment', {
  skip: engine === 'pglite' && 'the embedded engine does one after the other',
}, async () => {
  const { db } = parley.context.database;
  const admin = await browserOf(parley, acme, 'hasty@example.com', 'admin');
  const risen = await browserOf(parley, acme, 'risen@example.com', 'member');
  const { user } = (await parley.call('GET', '/dashboard/session', { headers: risen })).body;
  const waiting = sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  for (const method of ['DELETE', 'PATCH'] as const) {
    await db.updateTable('members').set({ role: 'member' }).where('user_id', '=', user.id).execute();
    const answered = Promise.withResolvers<{ status: number }>();
    await db.transaction().execute(async (promoting) => {
      await promoting.updateTable('members').set({ role: 'owner' }).where('user_id', '=', user.id).execute();
      const body = method === 'PATCH' ? { role: 'admin' } : undefined;
      parley.call(method, `/api/members/${user.id}`, { headers: admin, body }).then(answered.resolve, answered.reject);
      await until(async () => (await waiting.execute(db)).rows.length > 0);
    });
    assert.equal((await answered.promise).status, 403, method);
  }
});

test('of two admins who take each other’s role at the same moment, one does', async () => {
  const pair = await createOrganization(parley, 'pair');
  const emails = ['left@example.com', 'right@example.com'] as const;
  const [left, right] = [await browserOf(parley, pair, emails[0], 'admin'), await browserOf(parley, pair, emails[1], 'admin')];
  const members = (await parley.call('GET', '/api/members', { key: pair.key })).body.data;
  const pathOf = (email: string) => `/api/members/${members.find((member: { email: string }) => member.email === email).id}`;
  const takes = (headers: Record<string, string>, method: 'PATCH' | 'DELETE', email: string) =>
    parley.call(method, pathOf(email), { headers, body: method === 'PATCH' ? { role: 'member' } : undefined });
  for (const method of ['PATCH', 'PATCH', 'PATCH', 'DELETE'] as const) {
    const answers = await Promise.all([takes(left, method, emails[1]), takes(right, method, emails[0])]);
    const [done, ...refused] = answers.sort((one, other) => one.status - other.status);
    assert.equal(done?.status, method === 'PATCH' ? 200 : 204);
    // Who came too late to be let in at all has 403, or 401 once they are no member.
    assert.ok(
      refused.every(({ status }) => [401, 403, 409].includes(status)),
      `${method}: ${refused.map(({ text }) => text)}`,
    );
    if (method === 'PATCH')
      for (const email of emails) await parley.call('PATCH', pathOf(email), { key: pair.key, body: { role: 'admin' } });
  }
});

test('an invitation that is accepted twice at once, as by a double click, gives the same answer twice and one member', async () => {
  const { key } = await createOrganization(parley, 'doubled');
  const { token } = (await parley.call('POST', '/api/invitations', { key, body: { email: 'eager@example.com' } })).body;
  const accept = () => parley.call('POST', '/api/invitations/accept', { body: { token, name: 'Eager', password } });
  const answers = await Promise.all([accept(), accept(), accept()]);
  for (const { status, text } of answers) assert.deepEqual([status, text], [201, answers[0]?.text]);
  assert.equal((await parley.call('GET', '/api/members', { key })).body.data.length, 1);
});

test('who forgot the password is removed and invited again; an account that belongs elsewhere stays as it is', async () => {
  const [home, other] = [await createOrganization(parley, 'home'), await createOrganization(parley, 'other')];
  const join = async (key: string, email: string, password: string) => {
    const { token } = (await parley.call('POST', '/api/invitations', { key, body: { email, role: 'member' } })).body;
    const joined = await parley.call('POST', '/api/invitations/accept', { body: { token, name: 'Someone', password } });
    return { status: joined.status, id: joined.body.member?.id };
  };
  const forgetful = await join(home.key, 'forgetful@example.com', 'the first password');
  const guest = await join(home.key, 'guest@example.com', 'the first password');
  assert.equal((await join(other.key, 'guest@example.com', 'the first password')).id, guest.id);
  for (const { id } of [forgetful, guest]) assert.equal((await parley.call('DELETE', `/api/members/${id}`, { key: home.key })).status, 204);
  assert.equal((await join(home.key, 'forgetful@example.com', 'another password')).status, 201);
  assert.equal((await join(home.key, 'guest@example.com', 'another password')).status, 403);
  const body = { email: 'forgetful@example.com', password: 'another password' };
  assert.equal((await parley.call('POST', '/auth/sign-in/email', { body })).status, 200);
});

test('a removed member is out at once, and the last owner cannot go', async () => {
  const club = await createOrganization(parley, 'club');
  const owner = await browserOf(parley, club, 'only-owner@example.com', 'owner');
  const admin = await browserOf(parley, club, 'club-admin@example.com', 'admin');
  const members = (await parley.call('GET', '/api/members', { key: club.key })).body.data;
  const idOf = (email: string) => members.find((member: { email: string }) => member.email === email).id;
  const ownerPath = `/api/members/${idOf('only-owner@example.com')}`;
  const last = await parley.call('DELETE', ownerPath, { key: club.key });
  assert.deepEqual([last.status, /last owner/.test(last.body.detail)], [409, true]);
  for (const [role, status] of [
    ['member', 409],
    ['admin', 409],
    ['owner', 200],
  ] as const)
    assert.equal((await parley.call('PATCH', ownerPath, { headers: owner, body: { role } })).status, status, role);
  const changes = await parley.call('GET', '/api/audit_events?event_action=member.role_changed', { key: club.key });
  assert.deepEqual(changes.body.data, [], 'what was refused or changed nothing is not on record');
  assert.equal(
    (await parley.call('PATCH', ownerPath, { headers: admin, body: { role: 'member' } })).status,
    403,
    'an admin unmakes no owner',
  );
  const adminPath = `/api/members/${idOf('club-admin@example.com')}`;
  assert.equal((await parley.call('PATCH', adminPath, { headers: admin, body: { role: 'owner' } })).status, 403, 'nor makes one');
  assert.equal((await parley.call('DELETE', adminPath, { headers: owner })).status, 204);
  assert.equal((await parley.call('GET', '/dashboard/session', { headers: admin })).status, 401);
  assert.equal((await parley.call('GET', `/api/members/${idOf('club-admin@example.com')}`, { key: club.key })).status, 404);
});

test('who is removed does not come back with another link to their address, and that is on record', async () => {
  const club = await createOrganization(parley, 'left');
  const body = { email: 'leaver@example.com', role: 'admin' };
  const invited = async (key: string) => (await parley.call('POST', '/api/invitations', { key, body })).body;
  const [first, second, elsewhere] = [await invited(club.key), await invited(club.key), await invited(acme.key)];
  const accept = ({ token }: { token: string }) =>
    parley.call('POST', '/api/invitations/accept', { body: { token, name: 'Leaver', password } });
  const joined = await accept(first);
  assert.deepEqual((await accept(first)).body, joined.body);
  assert.equal((await parley.call('DELETE', `/api/members/${joined.body.member.id}`, { key: club.key })).status, 204);
  for (const gone of [first, second]) assert.equal((await accept(gone)).status, 404);
  assert.deepEqual((await parley.call('GET', '/api/invitations', { key: club.key })).body.data, []);
  const { data } = (await parley.call('GET', '/api/audit_events?event_action=member.removed', { key: club.key })).body;
  assert.deepEqual(
    data.map((event: { subject_type: string; metadata: object }) => [event.subject_type, event.metadata]),
    [
      ['invitation', { ...body, withdrawn: true }],
      ['member', body],
    ],
  );
  assert.equal((await accept(elsewhere)).status, 201, 'another organization’s is its own');
});

test('an admin who removes a member withdraws no invitation that they could not withdraw by itself: the owner’s stays', async () => {
  const alliance = await createOrganization(parley, 'alliance');
  const owner = await browserOf(parley, alliance, 'alliance-owner@example.com', 'owner');
  const admin = await browserOf(parley, alliance, 'alliance-admin@example.com', 'admin');
  const invited = async (headers: Record<string, string>, role: string) =>
    (await parley.call('POST', '/api/invitations', { headers, body: { email: 'newcomer@example.com', role } })).body;
  const asOwner = await invited(owner, 'owner');
  const asMember = await invited(admin, 'member');
  await invited(owner, 'admin');
  const body = { token: asMember.token, name: 'Newcomer', password };
  const joined = await parley.call('POST', '/api/invitations/accept', { body });
  assert.equal((await parley.call('DELETE', `/api/invitations/${asOwner.invitation.id}`, { headers: admin })).status, 403);
  assert.equal((await parley.call('DELETE', `/api/members/${joined.body.member.id}`, { headers: admin })).status, 204);
  assert.deepEqual((await parley.call('GET', '/api/invitations', { headers: owner })).body.data, [asOwner.invitation]);
  assert.equal((await parley.call('POST', '/api/invitations/accept', { body: { ...body, token: asOwner.token } })).status, 201);
});

test('an admin makes and unmakes no owner with a key either, however it was made; an owner does', async () => {
  const guild = await createOrganization(parley, 'guild');
  const owner = await browserOf(parley, guild, 'guild-owner@example.com', 'owner');
  const admin = await browserOf(parley, guild, 'guild-admin@example.com', 'admin');
  const members = (await parley.call('GET', '/api/members', { key: guild.key })).body.data;
  const pathOf = (email: string) => `/api/members/${members.find((member: { email: string }) => member.email === email).id}`;
  const body = { name: 'Everything', scopes: allScopes };
  const made = async (caller: { headers?: Record<string, string>; key?: string }) => {
    const answer = await parley.call('POST', '/api/api_keys', { ...caller, body });
    assert.equal(answer.status, 201, answer.text);
    return answer.body.secret;
  };
  const invite = (key: string, role: string) =>
    parley.call('POST', '/api/invitations', { key, body: { email: `${role}-${key.slice(-6)}@example.com`, role } });

  const ofAdmin = await made({ headers: admin });
  for (const key of [ofAdmin, await made({ key: ofAdmin })]) {
    const refused = await invite(key, 'owner');
    assert.deepEqual([refused.status, /not created by an admin/.test(refused.body.detail)], [403, true]);
    assert.equal((await parley.call('PATCH', pathOf('guild-admin@example.com'), { key, body: { role: 'owner' } })).status, 403);
    assert.equal((await parley.call('PATCH', pathOf('guild-owner@example.com'), { key, body: { role: 'member' } })).status, 403);
    assert.equal((await parley.call('DELETE', pathOf('guild-owner@example.com'), { key })).status, 403);
    assert.equal((await invite(key, 'admin')).status, 201, 'what an admin may do its key may');
  }
  const ofOwner = await made({ headers: owner });
  for (const key of [ofOwner, await made({ key: ofOwner }), guild.key]) assert.equal((await invite(key, 'owner')).status, 201);

  const once = { 'idempotency-key': 'a key of the owner' };
  assert.equal((await parley.call('POST', '/api/api_keys', { headers: { ...owner, ...once }, body })).status, 201);
  const repeated = await parley.call('POST', '/api/api_keys', { headers: { ...admin, ...once }, body });
  assert.deepEqual([repeated.status, repeated.text.includes('svc_live_')], [403, false], 'nor asks again for one that an owner made');
});
