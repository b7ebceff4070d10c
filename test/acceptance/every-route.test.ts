// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { deadUrl } from '../support/accounts.ts';
import { type Answer, startApp } from '../support/app.ts';
import { furnishOrganization, pathOf } from '../support/furnished-organization.ts';
import { type Operation, readOpenApi } from '../support/openapi.ts';

// Generated from the published document: a route that is added is tested here without being named.
const parley = await startApp({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1', PARLEY_WEBHOOK_MAX_FAILURES: '1000' } });
const { operations, sample } = await readOpenApi(parley);
const tenant = await furnishOrganization(parley, 'tenant');
const neighbour = await furnishOrganization(parley, 'neighbour');

/** The two adapters for OpenAI clients add their `error`; minting is flat. */
function assertNotFound(answer: Answer, name: string): void {
  assert.equal(answer.status, 404, `${name}: ${answer.text}`);
  const { detail = answer.body.message } = answer.body;
  assert.equal(detail, 'Not Found', name);
}

/** What an org has, but for what counts by itself: uses of its keys, and failures of an endpoint that nobody listens at. */
async function ownedBy(key: string): Promise<string> {
  const paths = [
    '/api/agents',
    '/api/agents/desk/releases',
    '/api/api_keys',
    '/api/organization',
    '/api/members',
    '/api/invitations',
    '/api/model_credentials',
    '/api/budget',
    '/api/webhook_endpoints',
  ];
  const answers = await Promise.all(paths.map((path) => parley.call('GET', path, { key })));
  return answers.map((answer) => answer.text.replaceAll(/"(last_used_at|consecutive_failures)":[^,]*/g, '')).join('\n');
}

test('the document holds the whole interface', () => {
  assert.ok(operations.length >= 40, `${operations.length} operations`);
});

for (const operation of operations.filter((candidate) => !candidate.isPublic)) {
  const body = operation.body === undefined ? {} : { body: operation.body.example };
  const { method, name } = operation;

  test(`${name}: nobody is let in without a key`, async () => {
    const keys = [undefined, 'svc_live_notakeynotakeynotakey', 'eyJhbGciOiJub25lIn0.e30.e30', parley.operatorKey];
    for (const key of keys) {
      const answer = await parley.call(method, pathOf(operation, tenant), { key, ...body });
      assert.equal(answer.status, 401, answer.text);
      assert.ok(answer.body.detail === 'Unauthorized' || answer.body.message === 'Unauthorized', answer.text);
    }
  });

  if (operation.scopes.length > 0) {
    test(`${name}: needs ${operation.scopes.join(' and ')}`, async () => {
      const answer = await parley.call(method, pathOf(operation, tenant), { key: tenant.bareKey, ...body });
      assert.equal(answer.status, 403, answer.text);
    });
  }

  if (operation.path.includes('{')) {
    test(`${name}: another org's things are not there`, async () => {
      const before = await ownedBy(tenant.key);
      // The neighbour has an agent of the same name: only what cannot be theirs is asked for.
      const path = pathOf(operation, tenant);
      const shared = /^\/api\/(agents|model_credentials)\//.test(path);
      const foreign = shared ? path.replace('/desk', '/unknown').replace('/openai', '/unknown') : path;
      // A credential that is not there can be stored.
      if (shared && method === 'PUT') return;
      assertNotFound(await parley.call(method, foreign, { key: neighbour.key, ...body }), name);
      const isBelowAgent = path.startsWith(`/${tenant.slug}/`) && (path.includes(tenant.sessionId) || path.includes(tenant.responseId));
      const own = isBelowAgent ? path.replace(`/${tenant.slug}/`, `/${neighbour.slug}/`) : foreign;
      assertNotFound(await parley.call(method, own, { key: neighbour.key, ...body }), `${name} below an agent of their own`);
      const query = operation.query.map((parameter) => `${parameter.name}=nonsense`).join('&');
      for (const bad of operation.body === undefined ? [undefined] : ['{"text":', '[1]', '{"role":7}'])
        assertNotFound(await parley.call(method, `${own}?${query}`, { key: neighbour.key, body: bad }), `${name}, whatever else is wrong`);
      assert.equal(await ownedBy(tenant.key), before, 'nothing of it has changed');
    });
  }

  if (method === 'GET' && !operation.path.includes('{')) {
    test(`${name}: shows nothing of another org`, async () => {
      const answer = await parley.call(method, operation.path, { key: neighbour.key });
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.text.includes(tenant.marker), false);
    });
  }

  if (operation.body !== undefined) {
    test(`${name}: a bad body is refused with a reason`, async () => {
      for (const bad of [
        '{"text":',
        '[1]',
        '"text"',
        '7',
        '{"a":"\\u0000"}',
        '{"__proto__":1}',
        `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
      ]) {
        const answer = await parley.call(method, pathOf(operation, tenant), { key: tenant.key, body: bad });
        // A session of its own may be busy or the input unknown; a body is looked at before that.
        assert.ok([400, 422].includes(answer.status), `${bad.slice(0, 20)}: ${answer.status} ${answer.text}`);
        assert.ok(JSON.stringify(answer.body).length > 10, answer.text);
      }
    });
  }
}

test('a good request is answered as the document says, and again under its Idempotency-Key', async () => {
  for (const operation of operations.filter((candidate) => candidate.path.startsWith('/api/'))) {
    const fresh = operation.method === 'GET' ? neighbour : await furnishOrganization(parley, `good-${operations.indexOf(operation)}`);
    const body = await goodBody(operation, fresh.key);
    const key = operation.isPublic ? undefined : fresh.key;
    const isOnce = operation.method === 'POST' && !operation.isPublic;
    const call = () =>
      parley.call(operation.method, pathOf(operation, fresh), {
        key,
        ...(operation.body === undefined ? {} : { body }),
        ...(isOnce ? { headers: { 'idempotency-key': 'once' } } : {}),
      });
    const answer = await call();
    assert.ok(answer.status < 300 && operation.statuses.includes(answer.status), `${operation.name}: ${answer.status} ${answer.text}`);
    if (operation.method === 'POST' && answer.status === 201) assert.ok(answer.body !== undefined, 'creates answer with what they made');
    assert.ok(answer.headers['x-request-id'], operation.name);
    if (!isOnce) continue;
    const again = await call();
    const replayed = again.headers['idempotent-replayed'];
    assert.deepEqual([again.status, again.text, replayed], [answer.status, answer.text, 'true'], operation.name);
  }
});

/** The document's example, but for what must be someone's own or would leave the machine. */
async function goodBody({ name, body }: Operation, key: string): Promise<unknown> {
  if (name === 'POST /api/webhook_endpoints') return { name: 'Hook', url: deadUrl };
  if (name !== 'POST /api/invitations/accept') return body?.example;
  const invited = await parley.call('POST', '/api/invitations', { key, body: { email: `joins-${key}@example.com` } });
  return { token: invited.body.token, name: 'Joins', password: 'a long enough password' };
}

test('every body has an example that its own schema accepts', async () => {
  for (const { name, body } of operations) {
    if (body === undefined) continue;
    assert.equal(typeof body.example, 'object', name);
    assert.ok(sample(body.schema) !== undefined, name);
  }
});
