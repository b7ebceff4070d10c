// People who are signed in to the dashboard: what their cookie lets them do, and what ends it.
// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createAgent, createOrganization, operate } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { startDatabaseProxy } from '../../support/database-proxy.ts';
import { createDatabase, engine } from '../../support/engine.ts';
import { browserOf, password } from '../../support/members.ts';
import { until } from '../../support/until.ts';

const parley = await startApp({ after }, { settings: { PARLEY_TRUST_PROXY: '127.0.0.1' } });
const acme = await createOrganization(parley, 'acme');

test('signing in sets a strict cookie that a script cannot read, and no token in the body', async () => {
  await browserOf(parley, acme, 'cookie@example.com', 'member');
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

test('where the public URL is https, no other host of the domain can set the cookie', async (context) => {
  const secure = await startApp(context, { settings: { PARLEY_PUBLIC_URL: 'https://agents.example' } });
  const { cookie = '' } = await browserOf(secure, await createOrganization(secure), 'host@example.com', 'member');
  const answer = await secure.call('POST', '/auth/sign-in/email', { body: { email: 'host@example.com', password } });
  assert.match(
    String(answer.headers['set-cookie']),
    /^__Host-parley\.session_token=[^;]+; Max-Age=604800; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
  );
  const session = (sent: string) => secure.call('GET', '/dashboard/session', { headers: { cookie: sent } });
  assert.equal((await session(cookie)).status, 200);
  for (const name of ['parley', '__Secure-parley']) assert.equal((await session(cookie.replace('__Host-parley', name))).status, 401);
});

test('what signing in does not know is the 404 of every surface', async () => {
  for (const path of ['/auth/sign-out', '/auth/%67et-session', '/auth/sign-up/email']) {
    const answer = await parley.call('GET', path);
    assert.deepEqual([answer.status, answer.text], [404, '{"detail":"Not Found"}'], path);
  }
});

test('a signed-in member talks to an agent of their org, and to none of another', async () => {
  const other = await createOrganization(parley, 'elsewhere');
  await createAgent(parley, other.key, 'desk');
  await createAgent(parley, acme.key, 'talker');
  const headers = await browserOf(parley, acme, 'talker@example.com', 'member');
  assert.equal((await parley.call('POST', '/acme/talker/v1/sessions', { headers, body: {} })).status, 200);
  assert.equal((await parley.call('POST', '/elsewhere/desk/v1/sessions', { headers, body: {} })).status, 404);
});

test('streams of a member end when they are removed, sign out, or support access or their org is turned off, and no one else hears of it', async () => {
  const acting = await createOrganization(parley, 'streaming');
  await createAgent(parley, acting.key, 'desk');
  const url = await parley.listen();
  const open = async (headers: Record<string, string>, metadata = {}) => {
    const created = await parley.call('POST', '/streaming/desk/v1/managed-agents/sessions', { headers, body: { metadata } });
    assert.equal(created.status, 201, created.text);
    const path = `/streaming/desk/v1/managed-agents/sessions/${created.body.id}/events/stream`;
    const response = await fetch(url + path, { headers });
    assert.equal(response.status, 200);
    return { ended: response.text(), headers };
  };
  const removed = await open(await browserOf(parley, acting, 'removed@example.com', 'member'));
  const leaver = await open(await browserOf(parley, acting, 'leaver@example.com', 'member'));
  const stayer = await open(await browserOf(parley, acting, 'stayer@example.com', 'owner'));
  const { data } = (await parley.call('GET', '/api/members', { key: acting.key })).body;
  const { id } = data.find((member: { email: string }) => member.email === 'removed@example.com');
  assert.equal((await parley.call('DELETE', `/api/members/${id}`, { key: acting.key })).status, 204);
  assert.match(await removed.ended, /^event: stream.closed\ndata: .*"credential_revoked"/m);

  assert.equal(
    (await parley.call('POST', '/auth/sign-out', { headers: { ...leaver.headers, origin: 'http://localhost' }, body: {} })).status,
    200,
  );
  parley.context.directory.invalidate(acting.id);
  assert.match(await leaver.ended, /"credential_revoked"/);

  assert.equal(parley.server.streams.size, 1, 'the others go on');
  const access = (transcripts: boolean) =>
    parley.call('PATCH', '/api/organization', { key: acting.key, body: { support_access: { transcripts } } });
  await access(false);
  assert.match(await stayer.ended, /"credential_revoked"/);
  const playground = await open(stayer.headers, { source: 'playground' });
  parley.context.directory.invalidate(acting.id);
  await access(true);
  assert.equal(parley.server.streams.size, 1, 'one that was opened without support access goes on');
  await operate(parley, 'streaming', { status: 'suspended' });
  assert.match(await playground.ended, /"credential_revoked"/);
});

test('a request that a foreign page could cause changes nothing', async () => {
  const headers = await browserOf(parley, acme, 'target@example.com', 'owner');
  const withoutHeader = { cookie: headers.cookie ?? '' };
  assert.equal((await parley.call('POST', '/api/agents', { headers: withoutHeader, body: { slug: 'forged' } })).status, 401);
  const foreign = { ...headers, origin: 'https://evil.example' };
  assert.equal((await parley.call('POST', '/api/agents', { headers: foreign, body: { slug: 'forged' } })).status, 401);
  assert.equal((await parley.call('GET', '/api/agents', { headers: foreign })).status, 401);
  assert.equal((await parley.call('POST', '/auth/sign-out', { headers: withoutHeader, body: {} })).status, 403);
});

test('signing out ends the session', async () => {
  const headers = await browserOf(parley, acme, 'leaver@example.com', 'member');
  const out = await parley.call('POST', '/auth/sign-out', { headers: { ...headers, origin: 'http://localhost:80' }, body: {} });
  assert.equal(out.status, 200, out.text);
  assert.equal((await parley.call('GET', '/dashboard/session', { headers })).status, 401);
});

test('someone in two orgs chooses with a header', async () => {
  const second = await createOrganization(parley, 'second');
  await browserOf(parley, acme, 'both@example.com', 'member');
  const headers = await browserOf(parley, second, 'both@example.com', 'owner');
  const first = await parley.call('GET', '/dashboard/session', { headers });
  assert.deepEqual(
    [first.body.organization.slug, first.body.organizations.map((entry: { slug: string }) => entry.slug)],
    ['acme', ['acme', 'second']],
  );
  const chosen = await parley.call('GET', '/dashboard/session', { headers: { ...headers, 'x-parley-organization': 'second' } });
  assert.deepEqual([chosen.body.organization.slug, chosen.body.role], ['second', 'owner']);
  assert.equal((await parley.call('GET', '/dashboard/session', { headers: { ...headers, 'x-parley-organization': 'demo' } })).status, 401);
});

test('a suspended org keeps its members out', async () => {
  const closed = await createOrganization(parley, 'closed');
  const headers = await browserOf(parley, closed, 'closed@example.com', 'owner');
  await operate(parley, 'closed', { status: 'suspended' });
  assert.equal((await parley.call('GET', '/api/agents', { headers })).status, 403);
});

test('while the database is away, whoever is signed in, signs in or joins hears 503, as with a key', {
  skip: engine === 'pglite' && 'the embedded database lives and dies with its process',
}, async (context) => {
  const database = await createDatabase();
  const proxy = await startDatabaseProxy(context, database);
  const app = await startApp(context, { database: proxy.database, settings: { PARLEY_LOG_LEVEL: 'silent' } });
  context.after(database.remove);
  const organization = await createOrganization(app, 'acme');
  const headers = await browserOf(app, organization, 'ada@example.com', 'owner');
  const invited = await app.call('POST', '/api/invitations', { key: organization.key, body: { email: 'bob@example.com', role: 'member' } });
  proxy.loses = () => true;
  for (const path of ['/dashboard/session', '/api/members']) {
    const answer = await app.call('GET', path, { headers });
    assert.deepEqual([answer.status, answer.headers['retry-after']], [503, '1'], `${path}: ${answer.text}`);
  }
  const signIn = () => app.call('POST', '/auth/sign-in/email', { body: { email: 'ada@example.com', password } });
  const join = () => app.call('POST', '/api/invitations/accept', { body: { token: invited.body.token, name: 'Bob', password } });
  const attempts = await Promise.all([signIn, join].flatMap((attempt) => Array.from({ length: 10 }, attempt)));
  assert.deepEqual(new Set(attempts.map(({ status }) => status)), new Set([503]));
  proxy.loses = () => false;
  await until(async () => (await app.call('GET', '/api/members', { headers })).status === 200);
  assert.equal((await signIn()).status, 200, 'no password was checked, so none of these attempts counts as a guess');
  assert.equal((await join()).status, 201, 'nor was a token');
});

test('after ten guesses at a password there is 429', async () => {
  await browserOf(parley, acme, 'guessed@example.com', 'member');
  const statuses: number[] = [];
  for (let guess = 0; guess < 11; guess += 1) {
    const body = { email: 'guessed@example.com', password: `guess number ${guess}` };
    statuses.push((await parley.call('POST', '/auth/sign-in/email', { body })).status);
  }
  assert.deepEqual(statuses, [...Array(10).fill(401), 429]);
});

test('a client that is refused for trying too often uses up the guesses of nobody', async () => {
  const email = 'cookie@example.com';
  const signIn = (client: string, body: unknown) =>
    parley.call('POST', '/auth/sign-in/email', { headers: { 'x-forwarded-for': client }, body });
  for (let guess = 0; guess < 30; guess += 1) await signIn('10.0.0.1', { email: 'nobody', password });
  for (let guess = 0; guess < 15; guess += 1) {
    const { status, headers } = await signIn('10.0.0.1', { email, password: 'a wrong one' });
    assert.deepEqual([status, headers['x-should-retry']], [429, 'true']);
    assert.match(String(headers['retry-after']), /^\d+$/);
  }
  assert.equal((await signIn('10.0.0.2', { email, password })).status, 200);
});

test('a client that spells the path of the sign-in another way gets 404, and uses up the guesses of nobody', async () => {
  const body = { email: 'cookie@example.com', password };
  for (let request = 0; request < 11; request += 1) {
    const answer = await parley.call('POST', '/auth/%73ign-in/email', { body });
    assert.deepEqual([answer.status, answer.text], [404, '{"detail":"Not Found"}']);
  }
  assert.equal((await parley.call('POST', '/auth/sign-in/email', { headers: { 'x-forwarded-for': '10.0.0.3' }, body })).status, 200);
});

test('guesses at a password through invitations end in 429 too, whoever else joins meanwhile', async () => {
  await browserOf(parley, acme, 'invited@example.com', 'member');
  const other = await createOrganization(parley, 'guessers');
  const invited = await parley.call('POST', '/api/invitations', { key: other.key, body: { email: 'invited@example.com' } });
  const { token } = invited.body;
  const statuses: number[] = [];
  for (let guess = 0; guess < 15; guess += 1) {
    const body = { token, name: 'x', password: `guess number ${guess}` };
    statuses.push((await parley.call('POST', '/api/invitations/accept', { body })).status);
    if (guess % 5 === 0) await browserOf(parley, other, `other${guess}@example.com`, 'member');
  }
  assert.deepEqual([statuses[0], statuses.at(-1)], [403, 429]);
  const refused = await parley.call('POST', '/api/invitations/accept', { body: { token, name: 'x', password } });
  assert.deepEqual([refused.status, refused.headers['retry-after']], [429, '600'], 'also for one that is right');
});

test('what is no address is not counted: neither how long it is nor what it says matters to others', async () => {
  // Attempts to join are counted by client, under its address.
  for (const email of [`${'x'.repeat(300)}@example.com`, '127.0.0.1']) {
    for (let guess = 0; guess < 11; guess += 1) {
      const answer = await parley.call('POST', '/auth/sign-in/email', { body: { email, password } });
      assert.notEqual(answer.body.detail, 'Too many attempts');
    }
  }
  const body = { token: 'inv_nobodys', name: 'x', password };
  assert.equal((await parley.call('POST', '/api/invitations/accept', { body })).status, 404);
});

test('what anybody may send is short: a megabyte of small fields would keep everybody waiting while it is read', async () => {
  const fields = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`field${index}`, 0]));
  for (const path of ['/auth/sign-in/email', '/api/invitations/accept']) {
    const refused = await parley.call('POST', path, { body: fields });
    assert.deepEqual(
      [refused.status, refused.text],
      [413, '{"detail":"The body is too large for this route, which takes at most 16384 bytes."}'],
      path,
    );
  }
  const longest = { token: 'x'.repeat(200), name: 'x'.repeat(200), password: 'x'.repeat(256), email: `${'x'.repeat(60)}@example.com` };
  assert.equal((await parley.call('POST', '/api/invitations/accept', { body: longest })).status, 404);
});
