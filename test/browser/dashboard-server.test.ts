// How the dashboard is served: its policy, its caching, who may read what, and how much there is to load.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { apiKey, startApp } from '../support/app.ts';
import { buildDashboardOnce } from '../support/dashboard.ts';

buildDashboardOnce();
const parley = await startApp({ after }, { settings: { ANTHROPIC_API_KEY: 'sk-of-the-operator' } });
const dist = join(import.meta.dirname, '../../dashboard/dist');
const assets = readdirSync(join(dist, 'assets'));

test('every address below /dashboard is the app, under a policy without inline scripts and without other places', async () => {
  for (const path of ['/dashboard/', '/dashboard/sessions/ses_1?view=log', '/dashboard/no/such/page']) {
    const { status, headers, text } = await parley.call('GET', path);
    assert.equal(status, 200);
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/);
    assert.equal(headers['cache-control'], 'no-cache');
    assert.doesNotMatch(text, /<script>|<script [^>]*>[^<]|style=|https?:/);
  }
  assert.equal((await parley.call('GET', '/dashboard')).headers.location, '/dashboard/');
});

test('a person who opens the address of the server is led to the dashboard; a program is told that nothing is there', async () => {
  const person = await parley.server.inject({ url: '/', headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } });
  assert.deepEqual([person.statusCode, person.headers.location], [302, '/dashboard/']);
  for (const accept of ['*/*', 'application/json']) {
    const program = await parley.server.inject({ url: '/', headers: { accept } });
    assert.deepEqual([program.statusCode, program.payload], [404, '{"detail":"Not Found"}']);
  }
});

test('hashed files are cached for good and compressed; unknown ones are 404', async () => {
  const script = assets.find((name) => name.endsWith('.js')) ?? '';
  const { status, headers } = await parley.call('GET', `/dashboard/assets/${script}`, { headers: { 'accept-encoding': 'gzip' } });
  assert.equal(status, 200);
  assert.match(String(headers['cache-control']), /immutable/);
  assert.equal(headers['content-encoding'], 'gzip');
  assert.match(String(headers['content-type']), /javascript/);
  for (const name of ['gone.js', '..%2F..%2Fpackage.json', '../index.html'])
    assert.notEqual(
      (await parley.call('GET', `/dashboard/assets/${name}`)).headers['cache-control'],
      'public, max-age=31536000, immutable',
    );
  for (const path of ['assets/gone.js', 'api/no/such/route'])
    assert.equal((await parley.call('GET', `/dashboard/${path}`)).text, '{"detail":"Not Found"}');
});

test('a foreign host or origin is refused', async () => {
  for (const headers of [{ host: 'rebound.example' }, { host: '127.0.0.1:80', origin: 'https://elsewhere.example' }, { origin: 'null' }])
    for (const path of ['/dashboard/', '/dashboard/api/overview'])
      assert.equal((await parley.call('GET', path, { key: apiKey, headers: { host: '127.0.0.1', ...headers } })).status, 403);
  for (const host of ['localhost:8080', '127.0.0.1:8080', '[::1]:8080', '10.1.2.3'])
    assert.equal((await parley.call('GET', '/dashboard/', { headers: { host } })).status, 200);
});

test('the reads of the dashboard need a credential with the scope, and show nothing of another org', async () => {
  const paths = [
    'overview',
    'sessions',
    'sessions/ses_x',
    'approvals',
    'approvals/count',
    'agents/assistant/pins',
    'audit',
    'audit/1',
    'system',
  ];
  for (const path of paths) assert.equal((await parley.call('GET', `/dashboard/api/${path}`)).status, 401);
  const weak = await parley.call('POST', '/api/api_keys', { key: apiKey, body: { name: 'weak', scopes: [] } });
  for (const path of paths) assert.equal((await parley.call('GET', `/dashboard/api/${path}`, { key: weak.body.secret })).status, 403, path);

  const mine = await parley.call('POST', '/demo/assistant/v1/sessions', { key: apiKey, body: {} });
  await parley.call('POST', `/demo/assistant/v1/sessions/${mine.body.id}/messages`, {
    key: apiKey,
    body: { text: '/tool bash {"command":"date"}' },
  });
  const other = await parley.call('POST', '/operator/organizations', { key: parley.operatorKey, body: { slug: 'other' } });
  const theirs = other.body.api_key;
  assert.deepEqual((await parley.call('GET', '/dashboard/api/sessions', { key: theirs })).body, { data: [], next_cursor: null });
  assert.deepEqual((await parley.call('GET', '/dashboard/api/approvals', { key: theirs })).body.data, []);
  assert.equal((await parley.call('GET', `/dashboard/api/sessions/${mine.body.id}`, { key: theirs })).text, '{"detail":"Not Found"}');
  assert.equal((await parley.call('GET', '/dashboard/api/agents/assistant/pins', { key: theirs })).status, 404);
  const overview = await parley.call('GET', '/dashboard/api/overview', { key: theirs });
  assert.equal(overview.body.turns.count + overview.body.pending_approvals, 0);

  const found = await parley.call('GET', '/dashboard/api/sessions?state=waiting&agent=assistant', { key: apiKey });
  assert.deepEqual(
    found.body.data.map(({ id, state, agent }: { id: string; state: string; agent: string }) => ({ id, state, agent })),
    [{ id: mine.body.id, state: 'waiting', agent: 'assistant' }],
  );
  const [approval] = (await parley.call('GET', '/dashboard/api/approvals', { key: apiKey })).body.data;
  assert.deepEqual([approval.session_id, approval.tool, approval.input], [mine.body.id, 'bash', { command: 'date' }]);

  const { db } = parley.context.database;
  await sql`insert into approvals (request_id, org_id, session_id, turn_id, call_id, request)
    select 'req_' || n, org_id, session_id, turn_id, call_id, json_build_object('requestId', 'req_' || n, 'input', repeat('x', 300000))
    from approvals, generate_series(1, 9) n where request_id = ${approval.request_id}`.execute(db);
  const { data: shown, is_partial: isPartial } = (await parley.call('GET', '/dashboard/api/approvals', { key: apiKey })).body;
  assert.deepEqual([shown.length, shown[0].request_id, isPartial], [5, approval.request_id, true], 'of long ones a megabyte');
  await sql`delete from approvals where request_id in (select 'req_' || n from generate_series(1, 9) n)`.execute(db);
});

test('the overview leads to the turns that failed: whose they were, why, and where in their log', async () => {
  const path = '/demo/assistant/v1/sessions';
  const { body: session } = await parley.call('POST', path, { key: apiKey, body: {} });
  for (const text of ['Hello', '/fail unauthorized'])
    await parley.call('POST', `${path}/${session.id}/messages`, { key: apiKey, body: { text } });
  const { body } = await parley.call('GET', '/dashboard/api/overview', { key: apiKey });
  const [{ at, seq, ...failure }] = body.turns.failures;
  const message = 'The offline model was told to reject its key.';
  assert.deepEqual(failure, { session_id: session.id, agent: 'assistant', code: 'byok_key_rejected', message });
  const log = await parley.call('GET', `/demo/assistant/v1/managed-agents/sessions/${session.id}`, { key: apiKey });
  const entry = log.body.events.find((event: { seq: number }) => event.seq === seq);
  assert.deepEqual([entry.type, entry.created_at], ['session.error', at]);
  const setAccess = (transcripts: boolean) =>
    parley.call('PATCH', '/api/organization', { key: apiKey, body: { support_access: { transcripts } } });
  await setAccess(false);
  const closed = (await parley.call('GET', '/dashboard/api/overview', { key: apiKey })).body.turns.failures[0];
  assert.deepEqual([closed.code, closed.message], ['byok_key_rejected', null], 'it may quote the conversation');
  await setAccess(true);
});

test('the session search pages by cursor without a gap, and refuses what is no cursor', async () => {
  const ids: string[] = [];
  for (let index = 0; index < 7; index += 1)
    ids.push(
      (await parley.call('POST', '/demo/assistant/v1/sessions', { key: apiKey, body: { metadata: { end_user_id: 'pager' } } })).body.id,
    );
  const seen: string[] = [];
  for (let cursor = ''; ; ) {
    const page = await parley.call('GET', `/dashboard/api/sessions?q=pager&limit=3${cursor === '' ? '' : `&cursor=${cursor}`}`, {
      key: apiKey,
    });
    seen.push(...page.body.data.map(({ id }: { id: string }) => id));
    if (page.body.next_cursor === null) break;
    cursor = page.body.next_cursor;
  }
  assert.deepEqual(seen, ids.reverse());
  for (const bad of ['cursor=x', 'state=odd', 'release=0', `cursor=${Buffer.from('["sessions","now()","x"]').toString('base64url')}`])
    assert.equal((await parley.call('GET', `/dashboard/api/sessions?${bad}`, { key: apiKey })).status, 422, bad);
});

test('a session can be opened on a release that is not active, and counts as pinned to it', async () => {
  const { body } = await parley.call('POST', '/api/agents/assistant/releases', { key: apiKey, body: { instructions: 'Second.' } });
  const opened = await parley.call('POST', '/dashboard/api/playground/sessions', {
    key: apiKey,
    body: { agent: 'assistant', release: body.release.version },
  });
  assert.equal(opened.status, 201);
  const head = await parley.call('GET', `/dashboard/api/sessions/${opened.body.id}`, { key: apiKey });
  assert.equal(head.body.session.release, body.release.version);
  const pins = await parley.call('GET', '/dashboard/api/agents/assistant/pins', { key: apiKey });
  assert.ok(
    pins.body.data.some(
      ({ version, sessions }: { version: number; sessions: number }) => version === body.release.version && sessions === 1,
    ),
  );
  for (const release of [999, 0, 1.5])
    assert.ok(
      (await parley.call('POST', '/dashboard/api/playground/sessions', { key: apiKey, body: { agent: 'assistant', release } })).status >=
        404,
    );
});

test("a model is tried with one word and the organization's own key, and its refusal is an answer", async () => {
  const asked: (string | URL | Request)[] = [];
  parley.context.destinations.upstreams.fetch = async (url) => {
    asked.push(url);
    return new Response('{}', { status: 401 });
  };
  const good = await parley.call('POST', '/dashboard/api/models/test', { key: apiKey, body: { provider: 'offline', name: 'demo' } });
  assert.equal(good.body.ok, true);
  const bad = await parley.call('POST', '/dashboard/api/models/test', {
    key: apiKey,
    body: { provider: 'anthropic', name: 'claude-sonnet-4-5' },
  });
  assert.deepEqual([bad.status, bad.body.ok, bad.body.code], [200, false, 'byok_key_rejected']);
  assert.deepEqual(asked, [], 'the operator pays for no trial');
});

test('a trial is on record before the stored key is sent anywhere', async () => {
  await parley.call('PUT', '/api/model_credentials/openai', { key: apiKey, body: { api_key: 'sk-0123456789abcdef' } });
  const recorded = async () =>
    (await parley.call('GET', '/api/audit_events?event_action=model_credential.tested', { key: apiKey })).body.data[0]?.metadata;
  let onRecord: unknown;
  parley.context.destinations.upstreams.fetch = async () => {
    onRecord = await recorded();
    return new Response('{}', { status: 401 });
  };
  const body = { provider: 'openai', name: 'any', base_url: 'https://elsewhere.example/v1' };
  assert.equal((await parley.call('POST', '/dashboard/api/models/test', { key: apiKey, body })).body.ok, false);
  assert.deepEqual(onRecord, { provider: 'openai', model: 'any', host: 'elsewhere.example' });
});

test('a key that may only store credentials cannot have one sent to a server of its choice', async () => {
  const scopes = ['model_credentials:write'];
  const { body: made } = await parley.call('POST', '/api/api_keys', { key: apiKey, body: { name: 'Stores keys', scopes } });
  const body = { provider: 'openai', name: 'any', base_url: 'https://elsewhere.example/v1' };
  const { status, text } = await parley.call('POST', '/dashboard/api/models/test', { key: made.secret, body });
  assert.deepEqual([status, text], [403, '{"detail":"Missing scope: releases:write"}']);
});

test('all of it is less than 200 kB compressed, and the first page less than 130', () => {
  const size = (name: string) => readFileSync(join(dist, 'assets', name)).length;
  const compressed = assets.filter((name) => name.endsWith('.gz'));
  const total = compressed.reduce((sum, name) => sum + size(name), 0);
  const first = compressed.filter((name) => /^index-/.test(name)).reduce((sum, name) => sum + size(name), 0);
  assert.ok(total < 200_000, `${total} bytes`);
  assert.ok(first < 130_000, `${first} bytes`);
});

test('with split hosts, agents answer the dashboard on the management host, and nobody else there', async () => {
  const hosts = { PARLEY_BASE_HOST: 'base.example', PARLEY_AGENT_HOST: 'agents.example', PARLEY_MANAGEMENT_HOST: 'admin.example' };
  const split = await startApp({ after }, { settings: { ...hosts, PARLEY_TRUST_PROXY: '127.0.0.1' } });
  const path = '/demo/assistant/v1/sessions';
  const ask = async (headers: Record<string, string>, key?: string) => (await split.call('GET', path, { key, headers })).status;
  assert.equal(await ask({ host: 'agents.example' }, apiKey), 200);
  assert.equal(await ask({ host: 'admin.example' }, apiKey), 404);
  assert.equal(await ask({ host: 'admin.example', 'x-forwarded-host': 'agents.example' }, apiKey), 404, 'which a client can send');
  assert.equal(await ask({ host: 'admin.example', 'x-parley-dashboard': '1' }, apiKey), 404);
  assert.equal(await ask({ host: 'admin.example', 'x-parley-dashboard': '1' }), 401);
  assert.equal(await ask({ host: 'base.example', 'x-parley-dashboard': '1' }), 404);
  assert.equal((await split.call('GET', '/dashboard/', { headers: { host: 'admin.example' } })).status, 200);
  assert.equal((await split.call('GET', '/dashboard/', { headers: { host: 'agents.example' } })).status, 404);
});

test('people sign in where the dashboard is, whatever the public URL is, and nowhere else', async () => {
  const settings = {
    PARLEY_PUBLIC_URL: 'https://agents.example/below',
    PARLEY_MANAGEMENT_HOST: 'admin.example',
    PARLEY_TRUST_PROXY: '127.0.0.1',
  };
  const split = await startApp({ after }, { settings });
  const body = { email: 'nobody@example.com', password: 'a wrong password' };
  const signIn = async (host: string, origin: string) => {
    const headers = { host, origin, 'x-forwarded-proto': 'no scheme' };
    const { status, body: answer } = await split.call('POST', '/auth/sign-in/email', { headers, body });
    return [status, answer.detail];
  };
  assert.deepEqual(await signIn('admin.example', 'https://admin.example'), [401, 'Invalid email or password']);
  assert.deepEqual(await signIn('admin.example:443', 'https://admin.example'), [401, 'Invalid email or password']);
  assert.deepEqual(await signIn('admin.example', 'https://evil.example'), [403, 'This route is for the dashboard only.']);
  assert.deepEqual(await signIn('admin.example', 'null'), [403, 'This route is for the dashboard only.']);
  assert.deepEqual(await signIn('agents.example', 'https://agents.example'), [404, 'Not Found']);
  const { status } = await parley.call('POST', '/auth/sign-in/email', { headers: { host: 'rebound.example' }, body });
  assert.equal(status, 403, 'a name that we were not told of');
});
