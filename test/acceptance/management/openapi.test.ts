// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import Schema from 'typebox/schema';
import { startApp } from '../../support/app.ts';

const parley = await startApp({ after });
const { body: document, headers, status } = await parley.call('GET', '/openapi.json');

interface Operation {
  operationId: string;
  summary: string;
  tags: string[];
  security?: unknown[];
  parameters?: { in: string; name: string; required?: boolean }[];
  requestBody?: Body & { required: boolean };
  'x-scopes'?: string[];
  responses: Record<string, Body & { description: string }>;
}
interface Body {
  content?: Record<string, { schema: Record<string, unknown>; example?: unknown; examples?: Record<string, { value: unknown }> }>;
}
const operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

test('the document is public OpenAPI 3.1', () => {
  assert.equal(status, 200);
  assert.match(String(headers['content-type']), /^application\/json/);
  assert.equal(document.openapi, '3.1.0');
  assert.ok(document.info.title && document.info.version);
});

test('every operation has a name of its own, a summary, a tag, its path parameters and its errors', () => {
  const names = operations.map(({ operation }) => operation.operationId);
  assert.equal(new Set(names).size, names.length, 'operationId is unique');
  for (const { path, method, operation } of operations) {
    const name = `${method} ${path}`;
    assert.ok(operation.summary && operation.tags.length > 0, name);
    const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path').map((parameter) => parameter.name);
    assert.deepEqual(parameters.sort(), [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter).sort(), name);
    assert.ok(
      Object.keys(operation.responses).some((code) => code.startsWith('2')),
      name,
    );
    for (const [code, response] of Object.entries(operation.responses)) {
      assert.ok(response.description && response.description !== 'Default Response', `${name} ${code}`);
    }
    if (operation.security?.length === 0) continue;
    for (const code of ['401', '403', '404', '429', '503']) assert.ok(operation.responses[code], `${name} says when it answers ${code}`);
    if (operation.requestBody) assert.ok((operation.responses['422'] ?? operation.responses['400']) && operation.responses['415'], name);
    const waits = method === 'post' && /\/(messages|completions|responses|mcp)$/.test(path);
    assert.equal(operation.responses['502'] !== undefined, waits, `${name} says when what it waits for fails`);
  }
});

test('every reference leads somewhere, and nothing in it is a TypeBox leftover', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, reference]) => reference);
  assert.ok(references.length > 50);
  for (const reference of new Set(references)) {
    assert.ok(document.components.schemas[(reference ?? '').replace('#/components/schemas/', '')], reference);
  }
  assert.doesNotMatch(JSON.stringify(document), /~kind|~optional/);
});

test('examples are of their schemas, and the main answers have one', () => {
  const bodies = operations.flatMap(({ path, method, operation }) =>
    [['request', operation.requestBody] as const, ...Object.entries(operation.responses)].flatMap(([which, body]) =>
      Object.values(body?.content ?? {}).map((content) => ({ name: `${method} ${path} ${which}`, ...content })),
    ),
  );
  const shown = bodies.flatMap(({ name, schema, example, examples }) =>
    [example, ...Object.values(examples ?? {}).map(({ value }) => value)]
      .filter((each) => each !== undefined)
      .map((each) => ({ name, schema, example: each })),
  );
  for (const { name, schema, example } of shown) {
    const whole = { ...schema, components: document.components };
    assert.ok(Schema.Check(whole, example), `${name}: ${JSON.stringify(Schema.Errors(whole, example)[1])}`);
  }
  const names = new Set(shown.map(({ name }) => name));
  const agent = '/{org}/{agent}/v1';
  for (const name of [
    'post /v1/sessions 200',
    'post /v1/sessions/{session_id}/messages 200',
    'put /v1/sessions/{session_id}/inputs/{request_id} 200',
    `get ${agent}/sessions 200`,
    `get ${agent}/sessions/{session_id}/messages 200`,
    `post ${agent}/managed-agents/sessions 201`,
    `get ${agent}/managed-agents/sessions/{session_id} 200`,
    `post ${agent}/chat/completions 200`,
    `post ${agent}/responses 200`,
  ])
    assert.ok(names.has(name), name);
  for (const title of ['Agent', 'WebhookEndpoint']) assert.ok(document.components.schemas[title].examples, title);
});

test('what a route takes and gives is said as it is: statuses, types, headers, and bodies that may be left out', () => {
  const agent = '/{org}/{agent}/v1';
  const managed = `${agent}/managed-agents`;
  const of = (method: string, path: string): Operation => document.paths[path][method];
  for (const path of ['/v1/sessions', `${agent}/sessions`, `${managed}/sessions`])
    assert.equal(of('post', path).requestBody?.required, false, path);
  assert.equal(of('post', '/v1/sessions/{session_id}/messages').requestBody?.required, true);
  for (const [path, title] of [
    ['/v1/sessions', 'Error'],
    [`${agent}/chat/completions`, 'AdapterError'],
    [`${agent}/responses`, 'AdapterError'],
  ] as const)
    assert.deepEqual(of('post', path).responses['404']?.content?.['application/json']?.schema, { $ref: `#/components/schemas/${title}` });
  for (const { path, method, operation } of operations.filter(({ path }) => path.startsWith(managed))) {
    assert.ok(operation.responses['400'], `${method} ${path}`);
    assert.equal(operation.responses['422'] !== undefined, method === 'post', `${method} ${path}: only for a key that is used again`);
  }
  assert.equal(of('put', '/v1/sessions/{session_id}/inputs/{request_id}').responses['402'], undefined);
  for (const path of ['/v1/sessions/{session_id}/messages', `${agent}/chat/completions`, `${agent}/responses`])
    assert.deepEqual(Object.keys(of('post', path).responses['200']?.content ?? {}), ['application/json', 'text/event-stream'], path);
  for (const { path, method, operation } of operations)
    for (const [status, { content }] of Object.entries(operation.responses))
      if (status >= '400') assert.deepEqual(Object.keys(content ?? {}), ['application/json'], `${method} ${path} ${status}`);
  const header = (method: string, path: string, name: string) => of(method, path).parameters?.find((parameter) => parameter.name === name);
  assert.equal(header('post', `${managed}/mcp`, 'x-svc-session')?.required, true);
  assert.equal(header('get', `${managed}/sessions/{session_id}/events/stream`, 'last-event-id')?.required, false);
});

test('a scope that a route needs is said', () => {
  const post = document.paths['/api/agents'].post;
  assert.match(post.description, /`agents:write`/);
  const endpoint = '/api/webhook_endpoints/{id}';
  const expected = {
    'agents:read': ['GET /api/agents', 'GET /api/agents/{slug}'],
    'agents:write': ['POST /api/agents', 'PATCH /api/agents/{slug}', 'DELETE /api/agents/{slug}'],
    'releases:read': ['GET /api/agents/{slug}/releases', 'GET /api/agents/{slug}/releases/{version}'],
    'releases:write': ['POST /api/agents/{slug}/releases', 'POST /api/agents/{slug}/releases/{version}/activate'],
    'session_tokens:mint': ['POST /api/agents/{slug}/session_tokens'],
    'api_keys:read': ['GET /api/api_keys'],
    'api_keys:write': ['POST /api/api_keys', 'DELETE /api/api_keys/{id}'],
    'organization:read': ['GET /api/organization'],
    'organization:write': ['PATCH /api/organization'],
    'budgets:read': ['GET /api/budget'],
    'budgets:write': ['PUT /api/budget'],
    'usage:read': ['GET /api/usage'],
    'members:read': ['members', 'invitations'].flatMap((list) => [`GET /api/${list}`, `GET /api/${list}/{id}`]),
    'members:write': [
      'POST /api/invitations',
      ...['members', 'invitations'].flatMap((list) => [`PATCH /api/${list}/{id}`, `DELETE /api/${list}/{id}`]),
    ],
    'model_credentials:write': [
      'GET /api/model_credentials',
      ...['GET', 'PUT', 'DELETE'].map((method) => `${method} /api/model_credentials/{provider}`),
    ],
    'webhooks:read': [`GET ${endpoint}`, `GET ${endpoint}/deliveries`, 'GET /api/webhook_deliveries/{id}'],
    'webhooks:write': [
      'POST /api/webhook_endpoints',
      `PATCH ${endpoint}`,
      `DELETE ${endpoint}`,
      ...['enable', 'disable', 'rotate_secret', 'test', 'recover'].map((verb) => `POST ${endpoint}/${verb}`),
      'POST /api/webhook_deliveries/{id}/resend',
    ],
    'audit_log:export': ['GET /api/audit_events', 'GET /api/audit_events.csv', 'GET /api/audit_events/verification'],
    'sessions:read': ['GET /{org}/{agent}/v1/sessions/{session_id}/messages'],
  };
  const said: Record<string, string[]> = {};
  for (const { path, method, operation } of operations)
    for (const scope of operation['x-scopes'] ?? []) said[scope] = [...(said[scope] ?? []), `${method.toUpperCase()} ${path}`];
  const lines = (table: Record<string, string[]>) =>
    Object.entries(table)
      .flatMap(([scope, routes]) => routes.map((route) => `${scope} ${route}`))
      .sort();
  assert.deepEqual(lines(said), lines(expected));
});

test('internal and reserved routes are left out', () => {
  for (const { path } of operations) assert.doesNotMatch(path, /operator|^\/auth|^\/dashboard|healthz|readyz|metrics|\/account\//);
});

test('the reference page needs nothing from elsewhere', async () => {
  const page = await parley.call('GET', '/docs/api/');
  // Nothing on it leads to services of others.
  for (const name of ['agent', 'mcp']) assert.match(page.text, new RegExp(`"${name}":\\s*\\{\\s*"disabled":\\s*true`));
  assert.equal(page.status, 200);
  assert.match(String(page.headers['content-security-policy']), /default-src 'self'/);
  const sources = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, source]) => source ?? '');
  assert.ok(sources.length > 0);
  for (const source of sources) assert.doesNotMatch(source, /^(https?:)?\/\//);
  assert.match(page.text, /"telemetry": false/);
  assert.match(page.text, /"withDefaultFonts": false/);
  const script = await parley.call('GET', '/docs/api/js/scalar.js');
  assert.match(String(script.headers['content-type']), /javascript/);
  assert.ok(script.text.length > 1_000_000);
  assert.equal((await parley.call('GET', '/docs/api')).status, 301);
  assert.equal((await parley.call('GET', '/docs/api/nothing')).text, '{"detail":"Not Found"}');
});
