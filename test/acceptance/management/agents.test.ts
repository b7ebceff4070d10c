import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import { createAgent, createOrganization } from '../../support/accounts.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { until } from '../../support/until.ts';

const parley = await startApp({ after });
const acme = await createOrganization(parley, 'acme');

const openSession = (slug: string, body: unknown = {}) => parley.call('POST', `/acme/${slug}/v1/sessions`, { key: acme.key, body });

test('an agent is made, changed and taken away', async () => {
  const created = await parley.call('POST', '/api/agents', {
    key: acme.key,
    body: { slug: 'desk', name: 'Desk', description: 'Answers', default: true },
  });
  assert.equal(created.status, 201);
  assert.deepEqual(
    { ...created.body.agent, id: 0, created_at: '', updated_at: '' },
    {
      ...{ id: 0, slug: 'desk', name: 'Desk', description: 'Answers', default: true },
      ...{ active_version: null, active_state: null, created_at: '', updated_at: '' },
    },
  );
  assert.equal(Number.isInteger(created.body.agent.id), true);
  const changed = await parley.call('PATCH', '/api/agents/desk', { key: acme.key, body: { name: 'Help desk', default: false } });
  assert.deepEqual([changed.status, changed.body.agent.name, changed.body.agent.default], [200, 'Help desk', false]);
  assert.ok(changed.body.agent.updated_at > changed.body.agent.created_at);
  assert.equal((await parley.call('GET', '/api/agents/desk', { key: acme.key })).body.agent.name, 'Help desk');
  assert.equal((await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'desk' } })).status, 409);
  assert.equal((await parley.call('DELETE', '/api/agents/desk', { key: acme.key })).status, 204);
  assert.equal((await parley.call('GET', '/api/agents/desk', { key: acme.key })).text, '{"detail":"Not Found"}');
  assert.equal((await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'desk' } })).status, 201, 'the name is free again');
});

test('the answer to a change is what it made, also when the agent is deleted right after it', async (t) => {
  const { directory } = parley.context;
  await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'fleeting' } });
  const change = directory.change.bind(directory);
  t.mock.method(directory, 'change', async (...[orgId, work]: Parameters<typeof directory.change>) => {
    t.mock.restoreAll();
    const changed = await change(orgId, work);
    assert.equal((await parley.call('DELETE', '/api/agents/fleeting', { key: acme.key })).status, 204);
    return changed;
  });
  const changed = await parley.call('PATCH', '/api/agents/fleeting', { key: acme.key, body: { name: 'Gone', default: true } });
  assert.deepEqual([changed.status, changed.body.agent?.name, changed.body.agent?.default], [200, 'Gone', true]);
});

test('a refusal names the field', async () => {
  const cases: [body: unknown, detail: RegExp][] = [
    [{ slug: 'Not A Slug' }, /^slug: /],
    [{}, /^slug: is required/],
    [{ slug: 'x', name: '' }, /^name: /],
    [{ slug: 'x', nme: 'y' }, /^nme: /],
    [{ slug: 7 }, /^slug: /],
    [[], /^body: /],
    ['{"slug":', /JSON/],
    [{ slug: 'x', name: 'a\u0000b' }, /^name: .*NUL/],
  ];
  for (const [body, detail] of cases) {
    const answer = await parley.call('POST', '/api/agents', { key: acme.key, body });
    assert.equal(answer.status, 422, answer.text);
    assert.match(answer.body.detail, detail);
  }
  assert.equal((await parley.call('GET', '/api/agents/x', { key: acme.key })).status, 404, 'nothing was half-written');
});

test('without an active release there is nothing to talk to: 404', async () => {
  await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'empty' } });
  assert.equal((await openSession('empty')).status, 404);
});

test('versions count up, a session stays on its release, and rolling back is activating', async () => {
  await createAgent(parley, acme.key, 'pinned', { instructions: 'one' });
  const first = await openSession('pinned');
  assert.equal(first.body.agent.version, 1);
  const second = await parley.call('POST', '/api/agents/pinned/releases', { key: acme.key, body: { instructions: 'two' } });
  const { version, state, active, error } = second.body.release;
  assert.deepEqual([version, state, active, error], [2, 'materialized', false, null]);
  assert.equal((await openSession('pinned')).body.agent.version, 1);
  const activate = () =>
    parley.call('POST', '/api/agents/pinned/releases/2/activate', { key: acme.key, headers: { 'idempotency-key': 'activate 2' } });
  const activated = await activate();
  assert.deepEqual([activated.status, activated.body.release.active], [200, true]);
  assert.equal((await openSession('pinned')).body.agent.version, 2);
  const still = await parley.call('GET', `/acme/pinned/v1/sessions/${first.body.id}`, { key: acme.key });
  assert.equal(still.body.agent.version, 1);
  await parley.call('POST', '/api/agents/pinned/releases/1/activate', { key: acme.key });
  const repeated = await activate();
  assert.deepEqual([repeated.body, repeated.headers['idempotent-replayed']], [activated.body, 'true']);
  assert.equal((await openSession('pinned')).body.agent.version, 1, 'a repetition takes back nothing that came after the first');
  assert.equal((await parley.call('POST', '/api/agents/pinned/releases/9/activate', { key: acme.key })).status, 404);
  const list = await parley.call('GET', '/api/agents/pinned/releases', { key: acme.key });
  assert.deepEqual(
    list.body.data.map((release: { version: number; active: boolean }) => [release.version, release.active]),
    [
      [2, false],
      [1, true],
    ],
  );
});

test('a release that cannot be materialized says which step failed and why; sessions answer 409 until it is', async () => {
  await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'byok' } });
  const model = { provider: 'openai', name: 'gpt-5' };
  const failed = await parley.call('POST', '/api/agents/byok/releases', { key: acme.key, body: { model, activate: true } });
  assert.deepEqual([failed.status, failed.body.release.state], [201, 'failed']);
  assert.match(failed.body.release.error, /^credentials: no key for openai/);
  const refused = await openSession('byok');
  assert.deepEqual(
    [refused.status, refused.body, refused.headers['x-should-retry']],
    [409, { detail: 'Release 1 is not materialized.' }, 'false'],
  );
  const activeState = async () => (await parley.call('GET', '/api/agents/byok', { key: acme.key })).body.agent.active_state;
  const listed = (await parley.call('GET', '/api/agents', { key: acme.key })).body.data;
  assert.equal(listed.find(({ slug }: { slug: string }) => slug === 'byok').active_state, 'failed');
  assert.equal(await activeState(), 'failed');
  await parley.call('PUT', '/api/model_credentials/openai', { key: acme.key, body: { api_key: 'sk-1234567890abcd' } });
  assert.equal((await parley.call('POST', '/api/agents/byok/releases/1/activate', { key: acme.key })).status, 200);
  await parley.context.materializer.idle();
  assert.equal((await parley.call('GET', '/api/agents/byok/releases/1', { key: acme.key })).body.release.state, 'materialized');
  assert.equal(await activeState(), 'materialized');
  assert.equal((await openSession('byok')).status, 200);
});

test('a private base_url or MCP server fails with the name of the setting that allows it', async () => {
  await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'inside' } });
  const model = { provider: 'openai-compatible', name: 'llama', base_url: 'http://127.0.0.1:11434/v1' };
  const failed = await parley.call('POST', '/api/agents/inside/releases', { key: acme.key, body: { model } });
  assert.equal(failed.body.release.state, 'failed');
  assert.match(failed.body.release.error, /^model: .*PARLEY_ALLOW_PRIVATE_UPSTREAMS/);
  const mcp_servers = [{ name: 'crm', url: 'http://127.0.0.1:8090/mcp' }];
  const later = await parley.call('POST', '/api/agents/inside/releases', { key: acme.key, body: { mcp_servers } });
  assert.ok(['pending', 'materializing'].includes(later.body.release.state));
  await parley.context.materializer.idle();
  const release = (await parley.call('GET', '/api/agents/inside/releases/2', { key: acme.key })).body.release;
  assert.equal(release.state, 'failed');
  assert.match(release.error, /^mcp_servers: crm: .*PARLEY_ALLOW_PRIVATE_UPSTREAMS/);
  const missing = await parley.call('POST', '/api/agents/inside/releases', {
    key: acme.key,
    body: { mcp_servers: [{ name: 'crm', url: 'https://crm.example.com/mcp', credential: 'crm_token' }] },
  });
  await parley.context.materializer.idle();
  const unresolved = await parley.call('GET', `/api/agents/inside/releases/${missing.body.release.version}`, { key: acme.key });
  assert.match(unresolved.body.release.error, /^credentials: .*"crm_token"/);
});

test('releases made at once get versions without a gap', async () => {
  await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'many' } });
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => parley.call('POST', '/api/agents/many/releases', { key: acme.key, body: {} })),
  );
  const versions = answers.map((answer) => answer.body.release.version).sort((a, b) => a - b);
  assert.deepEqual(versions, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test('a page of long releases holds few of them, and its cursor leads to the rest', async () => {
  await createAgent(parley, acme.key, 'wordy');
  const instructions = Array.from({ length: 30_000 }, (_, number) => number).join(' ');
  const agents = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name, instructions }));
  for (let made = 0; made < 6; made += 1) {
    const { status, text } = await parley.call('POST', '/api/agents/wordy/releases', { key: acme.key, body: { agents } });
    assert.equal(status, 201, text);
  }
  const versions: number[] = [];
  for (let cursor = ''; ; ) {
    const { body, text } = await parley.call('GET', `/api/agents/wordy/releases?limit=200&cursor=${cursor}`, { key: acme.key });
    assert.ok(text.length < 3_000_000, `a page of ${text.length} characters`);
    versions.push(...body.data.map((release: { version: number }) => release.version));
    cursor = body.next_cursor ?? '';
    if (cursor === '') break;
  }
  assert.deepEqual(versions, [7, 6, 5, 4, 3, 2, 1]);
});

/** An app whose agent `asking` has a hundred pending approvals. */
async function startAsking(context: TestContext): Promise<TestApp> {
  const few = await startApp(context, { settings: { PARLEY_MAX_TURNS: '12' } });
  assert.equal((await few.request('POST', '/api/agents', { slug: 'asking', name: 'Asking' })).status, 201);
  const release = { model: { provider: 'offline', name: 'demo' }, tools: ['bash'], activate: true };
  assert.equal((await few.request('POST', '/api/agents/asking/releases', release)).status, 201);
  const ask = async () => {
    const { id } = (await few.request('POST', '/demo/asking/v1/sessions', {})).body;
    const answer = await few.request('POST', `/demo/asking/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"ls"}' });
    assert.equal(answer.body.pending_input?.tool, 'bash', answer.text);
  };
  for (let asked = 0; asked < 100; asked += 10) await Promise.all(Array.from({ length: 10 }, ask));
  return few;
}

test('while an agent with many pending approvals is deleted, other agents answer', async (context) => {
  const few = await startAsking(context);
  const { id } = (await few.request('POST', '/demo/assistant/v1/sessions', {})).body;
  const deleting = few.request('DELETE', '/api/agents/asking');
  const statuses: number[] = [];
  for (let said = 0; said < 20; said += 1)
    statuses.push((await few.request('POST', `/demo/assistant/v1/sessions/${id}/messages`, { text: '/say hi' })).status);
  assert.deepEqual(new Set(statuses), new Set([200]), String(statuses));
  assert.equal((await deleting).status, 204);
  await until(async () => (await few.request('GET', '/dashboard/api/approvals/count')).body.pending === 0);
});

test('the deletion of an agent does not wait for long until its pending approvals are withdrawn', { timeout: 20_000 }, async (context) => {
  const app = await startApp(context);
  const { id } = (await app.request('POST', '/demo/assistant/v1/sessions', {})).body;
  const paused = await app.request('POST', `/demo/assistant/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"ls"}' });
  assert.equal(paused.body.pending_input?.tool, 'bash', paused.text);
  const { promise: held, resolve: goOn } = Promise.withResolvers<void>();
  const interrupt = app.context.turns.interrupt.bind(app.context.turns);
  context.mock.method(app.context.turns, 'interrupt', (...given: Parameters<typeof interrupt>) => held.then(() => interrupt(...given)));
  assert.equal((await app.request('DELETE', '/api/agents/assistant')).status, 204);
  const pending = async () => (await app.request('GET', '/dashboard/api/approvals/count')).body.pending;
  assert.equal(await pending(), 1);
  goOn();
  await until(async () => (await pending()) === 0);
});

test('meanwhile the deletion of another agent waits for none of them, and a shutdown leaves those not begun to the next sweep', async (context) => {
  const few = await startAsking(context);
  const turnsIn = async (state: 'paused' | 'running') => {
    const { db } = few.context.database;
    return (await db.selectFrom('turns').select('id').where('state', '=', state).execute()).length;
  };
  const deleting = few.request('DELETE', '/api/agents/asking');
  await until(async () => (await turnsIn('paused')) < 100);
  assert.equal((await few.request('DELETE', '/api/agents/assistant')).status, 204);
  const left = await turnsIn('paused');
  assert.ok(left > 32, `${left} left`);
  await few.context.drain(new Promise(() => {}));
  assert.equal((await deleting).status, 204);
  assert.ok((await turnsIn('paused')) > 0);
  assert.equal(await turnsIn('running'), 0, 'each that was begun has ended');
});
