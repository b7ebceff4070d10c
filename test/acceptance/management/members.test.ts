import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { allScopes } from '../../../src/accounts/scopes.ts';
import { createAgent, createKey, createOrganization, operate, type TestOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

const parley = await startApp({ after });
const acme = await createOrganization(parley, 'acme');
const password = 'correct horse battery staple';

/** Joins by invitation and signs in; gives the headers of their browser. */
async function browserOf(organization: TestOrganization, email: string, role: string): Promise<Record<string, string>> {
  const invited = await parley.call('POST', '/api/invitations', { key: organization.key, body: { email, role } });
  assert.equal(invited.status, 201, invited.text);
  const joined = await parley.call('POST', '/api/invitations/accept', { body: { token: invited.body.token, name: 'Someone', password } });
  assert.equal(joined.status, 201, joined.text);
  return signIn(email);
}

async function signIn(email: string): Promise<Record<string, string>> {
  const answer = await parley.call('POST', '/auth/sign-in/email', { body: { email, password } });
  assert.equal(answer.status, 200, answer.text);
  const cookie = String(answer.headers['set-cookie']).split(';')[0] ?? '';
  return { cookie, 'x-parley-dashboard': '1' };
}

test('the first owner joins with the link of the first start, once', async () => {
  const token = parley.context.seeded.ownerToken ?? '';
  const body = { token, name: 'Owner', password, email: 'Owner@Example.com' };
  assert.equal((await parley.call('POST', '/api/invitations/accept', { body: { ...body, email: undefined } })).status, 422);
  const joined = await parley.call('POST', '/api/invitations/accept', { body });
  assert.deepEqual([joined.status, joined.body.member.role, joined.body.member.email], [201, 'owner', 'owner@example.com']);
  const again = await parley.call('POST', '/api/invitations/accept', { body });
  assert.deepEqual([again.status, again.text], [404, '{"detail":"Not Found"}']);
  const session = await parley.call('GET', '/dashboard/session', { headers: await signIn('owner@example.com') });
  assert.equal(session.status, 200);
  assert.deepEqual([session.body.user.email, session.body.organization.slug, session.body.role], ['owner@example.com', 'demo', 'owner']);
  assert.ok(session.body.scopes.includes('api_keys:write'));
});

test('signing in sets a strict cookie that a script cannot read, and no token in the body', async () => {
  await browserOf(acme, 'cookie@example.com', 'member');
  const answer = await parley.call('POST', '/auth/sign-in/email', { body: { email: 'cookie@example.com', password } });
  const cookie = String(answer.headers['set-cookie']);
  assert.match(cookie, /HttpOnly/i);
  assert.match(cookie, /SameSite=Strict/i);
  assert.equal(answer.text.includes(decodeURIComponent(cookie.split(/[=;.]/)[2] ?? 'nothing')), false);
  const wrong = await parley.call('POST', '/auth/sign-in/email', { body: { email: 'cookie@example.com', password: 'not the password' } });
  const nobody = await parley.call('POST', '/auth/sign-in/email', { body: { email: 'nobody@example.com', password } });
  assert.deepEqual([wrong.status, nobody.status], [401, 401]);
  assert.equal(wrong.text, nobody.text, 'whether an account exists is not told');
});

test('a member reads, an admin manages, and what they did is on record under their e-mail', async () => {
  const member = await browserOf(acme, 'member@example.com', 'member');
  const admin = await browserOf(acme, 'admin@example.com', 'admin');
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
  const admin = await browserOf(acme, 'hasty@example.com', 'admin');
  const risen = await browserOf(acme, 'risen@example.com', 'member');
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

test('a signed-in member talks to an agent of their org, and to none of another', async () => {
  const other = await createOrganization(parley, 'elsewhere');
  await createAgent(parley, other.key, 'desk');
  await createAgent(parley, acme.key, 'talker');
  const headers = await browserOf(acme, 'talker@example.com', 'member');
  assert.equal((await parley.call('POST', '/acme/talker/v1/sessions', { headers, body: {} })).status, 200);
  assert.equal((await parley.call('POST', '/elsewhere/desk/v1/sessions', { headers, body: {} })).status, 404);
});

test('a member reads no response while support access is off, but for those of the playground; a key reads on', async () => {
  const quiet = await createOrganization(parley, 'quiet');
  await createAgent(parley, quiet.key, 'desk');
  const headers = await browserOf(quiet, 'reader@example.com', 'owner');
  const said = async (metadata: Record<string, unknown>) => {
    const answer = await parley.call('POST', '/quiet/desk/v1/responses', { key: quiet.key, body: { input: 'Secret words', metadata } });
    assert.equal(answer.status, 200, answer.text);
    return `/quiet/desk/v1/responses/${answer.body.id}`;
  };
  const [theirs, own] = [await said({ end_user_id: 'ada' }), await said({ source: 'playground' })];
  assert.equal((await parley.call('GET', theirs, { headers })).status, 200);
  await parley.call('PATCH', '/api/organization', { key: quiet.key, body: { support_access: { transcripts: false } } });
  for (const path of [theirs, `${theirs}?stream=true`]) {
    const refused = await parley.call('GET', path, { headers });
    assert.deepEqual([refused.status, refused.body.detail], [403, 'Transcript access is disabled for this organization']);
  }
  assert.equal((await parley.call('GET', '/quiet/desk/v1/responses/resp_none', { headers })).status, 404);
  assert.equal((await parley.call('GET', own, { headers })).status, 200);
  assert.equal((await parley.call('GET', theirs, { key: quiet.key })).status, 200);
});

test('streams of a member end when they are removed, sign out, or their org is suspended, and no one else hears of it', async () => {
  const acting = await createOrganization(parley, 'streaming');
  await createAgent(parley, acting.key, 'desk');
  const url = await parley.listen();
  const open = async (headers: Record<string, string>) => {
    const created = await parley.call('POST', '/streaming/desk/v1/managed-agents/sessions', { headers, body: {} });
    assert.equal(created.status, 201, created.text);
    const path = `/streaming/desk/v1/managed-agents/sessions/${created.body.id}/events/stream`;
    const response = await fetch(url + path, { headers });
    assert.equal(response.status, 200);
    return { ended: response.text(), headers };
  };
  const removed = await open(await browserOf(acting, 'removed@example.com', 'member'));
  const leaver = await open(await browserOf(acting, 'leaver@example.com', 'member'));
  const stayer = await open(await browserOf(acting, 'stayer@example.com', 'owner'));
  const { data } = (await parley.call('GET', '/api/members', { key: acting.key })).body;
  const { id } = data.find((member: { email: string }) => member.email === 'removed@example.com');
  assert.equal((await parley.call('DELETE', `/api/members/${id}`, { key: acting.key })).status, 204);
  assert.match(await removed.ended, /^event: stream.closed\ndata: .*"credential_revoked"/m);

  assert.equal(
    (await parley.call('POST', '/auth/sign-out', { headers: { ...leaver.headers, origin: 'http://localhost' }, body: {} })).status,
    200,
  );
  parley.context.directory.invalidate(String(acting.id));
  assert.match(await leaver.ended, /"credential_revoked"/);

  assert.equal(parley.server.streams.size, 1, 'the others go on');
  await operate(parley, 'streaming', { status: 'suspended' });
  assert.match(await stayer.ended, /"credential_revoked"/);
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

test('a request that a foreign page could cause changes nothing', async () => {
  const headers = await browserOf(acme, 'target@example.com', 'owner');
  const withoutHeader = { cookie: headers.cookie ?? '' };
  assert.equal((await parley.call('POST', '/api/agents', { headers: withoutHeader, body: { slug: 'forged' } })).status, 401);
  const foreign = { ...headers, origin: 'https://evil.example' };
  assert.equal((await parley.call('POST', '/api/agents', { headers: foreign, body: { slug: 'forged' } })).status, 401);
  assert.equal((await parley.call('GET', '/api/agents', { headers: foreign })).status, 401);
  assert.equal((await parley.call('POST', '/auth/sign-out', { headers: withoutHeader, body: {} })).status, 403);
});

test('signing out ends the session', async () => {
  const headers = await browserOf(acme, 'leaver@example.com', 'member');
  const out = await parley.call('POST', '/auth/sign-out', { headers: { ...headers, origin: 'http://localhost:80' }, body: {} });
  assert.equal(out.status, 200, out.text);
  assert.equal((await parley.call('GET', '/dashboard/session', { headers })).status, 401);
});

test('a removed member is out at once, and the last owner cannot go', async () => {
  const club = await createOrganization(parley, 'club');
  const owner = await browserOf(club, 'only-owner@example.com', 'owner');
  const admin = await browserOf(club, 'club-admin@example.com', 'admin');
  const members = (await parley.call('GET', '/api/members', { key: club.key })).body.data;
  const idOf = (email: string) => members.find((member: { email: string }) => member.email === email).id;
  const ownerPath = `/api/members/${idOf('only-owner@example.com')}`;
  const last = await parley.call('DELETE', ownerPath, { key: club.key });
  assert.deepEqual([last.status, /last owner/.test(last.body.detail)], [409, true]);
  assert.equal((await parley.call('PATCH', ownerPath, { headers: owner, body: { role: 'member' } })).status, 409);
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

test('an admin makes and unmakes no owner with a key either, however it was made; an owner does', async () => {
  const guild = await createOrganization(parley, 'guild');
  const owner = await browserOf(guild, 'guild-owner@example.com', 'owner');
  const admin = await browserOf(guild, 'guild-admin@example.com', 'admin');
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

test('someone in two orgs chooses with a header', async () => {
  const second = await createOrganization(parley, 'second');
  await browserOf(acme, 'both@example.com', 'member');
  const headers = await browserOf(second, 'both@example.com', 'owner');
  const first = await parley.call('GET', '/dashboard/session', { headers });
  assert.deepEqual(
    [first.body.organization.slug, first.body.organizations.map((entry: { slug: string }) => entry.slug)],
    ['acme', ['acme', 'second']],
  );
  const chosen = await parley.call('GET', '/dashboard/session', { headers: { ...headers, 'x-parley-organization': 'second' } });
  assert.deepEqual([chosen.body.organization.slug, chosen.body.role], ['second', 'owner']);
  assert.equal((await parley.call('GET', '/dashboard/session', { headers: { ...headers, 'x-parley-organization': 'demo' } })).status, 401);
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
  const changed = (await parley.call('GET', '/api/audit_events?event_action=member.role_changed', { key: acme.key })).body.data[0];
  assert.deepEqual(
    [changed.subject_type, changed.metadata],
    ['invitation', { email: 'late@example.com', role: 'admin', previous_role: 'member' }],
  );
  assert.equal((await parley.call('DELETE', path, { key: other.key })).status, 404);
  assert.equal((await parley.call('DELETE', path, { key: acme.key })).status, 204);
  assert.equal((await parley.call('GET', path, { key: acme.key })).status, 404);
  assert.equal((await parley.call('DELETE', path, { key: acme.key })).status, 404);
  const { data } = (await parley.call('GET', '/api/audit_events?event_action=member.removed', { key: acme.key })).body;
  const { subject_type, metadata } = data[0];
  assert.deepEqual([subject_type, metadata.email, metadata.withdrawn], ['invitation', invited.body.invitation.email, true]);
  const late = await parley.call('POST', '/api/invitations/accept', { body: { token: invited.body.token, name: 'x', password } });
  assert.equal(late.status, 404);
  const twice = await parley.call('POST', '/api/invitations', { key: acme.key, body: { email: 'MEMBER@example.com' } });
  assert.equal(twice.status, 409);
  const nonsense = await parley.call('POST', '/api/invitations', { key: acme.key, body: { email: 'nonsense' } });
  assert.deepEqual([nonsense.status, nonsense.body], [422, { detail: 'email: must be an email address' }]);
});

test('a suspended org keeps its members out', async () => {
  const closed = await createOrganization(parley, 'closed');
  const headers = await browserOf(closed, 'closed@example.com', 'owner');
  await operate(parley, 'closed', { status: 'suspended' });
  assert.equal((await parley.call('GET', '/api/agents', { headers })).status, 403);
});

test('guesses at a password end in 429', async () => {
  const statuses: number[] = [];
  for (let guess = 0; guess < 15; guess += 1) {
    const body = { email: 'member@example.com', password: `guess number ${guess}` };
    statuses.push((await parley.call('POST', '/auth/sign-in/email', { body })).status);
  }
  assert.equal(statuses.at(-1), 429);
});
