// Every id of one org in the hands of another, wherever an id can stand: the answer is that of an id that never was, and nothing changes.
// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Answer, type Call, startApp } from '../support/app.ts';
import { type FurnishedOrganization, furnishOrganization, pathOf } from '../support/furnished-organization.ts';
import { readOpenApi } from '../support/openapi.ts';
import { unchanged } from '../support/unchanged.ts';

const parley = await startApp(
  { after },
  { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1', PARLEY_GATEWAY: '1', PARLEY_RATE_LIMIT_RPS: '0' } },
);
const { operations } = await readOpenApi(parley);
const owner = await furnishOrganization(parley, 'owner');
const stranger = await furnishOrganization(parley, 'stranger');

const asOwner = (method: 'GET' | 'POST', path: string, body?: unknown, headers: Record<string, string> = {}) =>
  parley.call(method, path, { key: owner.key, headers, ...(body === undefined ? {} : { body }) });
const asStranger = (method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, call: Call = {}) =>
  parley.call(method, path, { key: stranger.key, ...call });

// A conversation that waits for an approval, one with a key, and one below the stranger's own agent.
const waiting = await asOwner('POST', '/owner/desk/v1/sessions', {});
const paused = await asOwner('POST', `/owner/desk/v1/sessions/${waiting.body.id}/messages`, { text: '/tool bash {"command":"ls"}' });
const requestId: string = paused.body.pending_input.request_id;
await asOwner('POST', `/v1/sessions/${owner.sessionId}/messages`, { text: '/say MARK-owner' }, { 'idempotency-key': 'shared' });
const message: string = (await asOwner('GET', `/owner/desk/v1/responses/${owner.responseId}`)).body.output[0].id;

// Nothing is delivered from here on: what changes is somebody's doing.
await parley.context.courier.stop();

/** Runs it, and finds the owner's rows as they were. */
const leavesOwner = (work: () => Promise<void>) => unchanged(parley.context.database.db, owner.id, work);

function assertSame(foreign: Answer, unknown: Answer, status: number, name: string): void {
  assert.equal(foreign.status, status, `${name}: ${foreign.text}`);
  assert.deepEqual([foreign.status, foreign.text], [unknown.status, unknown.text], name);
  const headersOf = (answer: Answer) => ({ ...answer.headers, 'x-request-id': '', date: '' });
  assert.deepEqual(headersOf(foreign), headersOf(unknown), name);
}

const never: FurnishedOrganization = {
  ...owner,
  slug: 'nobody',
  sessionId: 'ses_01ARZ3NDEKTSV4RRFFQ69G5FAV',
  responseId: 'resp_01ARZ3NDEKTSV4RRFFQ69G5FAV',
  ids: {
    api_keys: '999999',
    webhook_endpoints: '999999',
    webhook_deliveries: '00000000-0000-4000-8000-000000000000',
    invitations: '999999',
    members: '999999',
  },
};

test('an id of another org in the path is as unknown as one that never was', async () => {
  await leavesOwner(async () => {
    let count = 0;
    for (const operation of operations.filter(({ path, isPublic }) => path.includes('{') && !isPublic)) {
      const { method, name } = operation;
      // A slug, a version and a provider are words that both may use; they are no ids.
      if (/^\/api\/(agents|model_credentials)\//.test(operation.path)) continue;
      const call = operation.body === undefined ? {} : { body: operation.body.example };
      assertSame(
        await asStranger(method, pathOf(operation, owner), call),
        await asStranger(method, pathOf(operation, never), call),
        404,
        name,
      );
      count += 1;
      if (method !== 'GET' && method !== 'DELETE') {
        const unreadable = await asStranger(method, pathOf(operation, owner), { body: '{' });
        assert.deepEqual([unreadable.status, unreadable.body.detail], [404, 'Not Found'], `${name}, a body that is no JSON`);
      }
      if (!/\{(session_id|response_id)\}/.test(operation.path)) continue;
      const below = (tenant: FurnishedOrganization) => pathOf(operation, { ...tenant, slug: stranger.slug });
      assertSame(await asStranger(method, below(owner), call), await asStranger(method, below(never), call), 404, `${name}, own agent`);
    }
    assert.ok(count >= 20, `${count} routes`);
  });
});

test('an approval of another org in the path is as unknown as one that never was', async () => {
  await leavesOwner(async () => {
    for (const base of ['', '/stranger/desk']) {
      const answer = (id: string) =>
        asStranger('PUT', `${base}/v1/sessions/${stranger.sessionId}/inputs/${id}`, { body: { decision: 'approve_once' } });
      assertSame(await answer(requestId), await answer('req_01ARZ3NDEKTSV4RRFFQ69G5FAV'), 409, base);
    }
  });
});

test('an id of another org in the body is as unknown as one that never was', async () => {
  const agent = '/stranger/desk/v1';
  const said = { role: 'user', content: 'hi' };
  const confirm = { type: 'user.tool_confirmation', result: 'allow' };
  const event = { sender_id: 'p', sender_type: 'human', event_type: 'message', message: 'hi' };
  const places: [name: string, path: string, body: (id: string) => unknown, foreign: string, unknown: string, status: number][] = [
    [
      'chat metadata',
      `${agent}/chat/completions`,
      (id) => ({ messages: [said], metadata: { session_id: id } }),
      owner.sessionId,
      never.sessionId,
      404,
    ],
    ['conversation', `${agent}/responses`, (id) => ({ input: 'hi', conversation: id }), owner.sessionId, never.sessionId, 404],
    [
      'conversation, an object',
      `${agent}/responses`,
      (id) => ({ input: 'hi', conversation: { id } }),
      owner.sessionId,
      never.sessionId,
      404,
    ],
    [
      'previous_response_id',
      `${agent}/responses`,
      (id) => ({ input: 'hi', previous_response_id: id }),
      owner.responseId,
      never.responseId,
      404,
    ],
    [
      'mcp_approval_response',
      `${agent}/responses`,
      (id) => ({ input: [{ type: 'mcp_approval_response', approval_request_id: id, approve: true }] }),
      requestId,
      'req_01ARZ3NDEKTSV4RRFFQ69G5FAV',
      404,
    ],
    [
      'tool confirmation',
      `${agent}/managed-agents/sessions/${stranger.sessionId}/events`,
      (id) => ({ ...confirm, request_id: id }),
      requestId,
      'req_01ARZ3NDEKTSV4RRFFQ69G5FAV',
      409,
    ],
    ['gateway submit', '/v1/gateway/events', (id) => ({ ...event, session_id: id }), owner.sessionId, never.sessionId, 404],
    [
      'gateway deliver',
      '/v1/gateway/deliveries',
      (id) => ({ recipient_id: 'desk', session_id: id, event }),
      owner.sessionId,
      never.sessionId,
      404,
    ],
  ];
  await leavesOwner(async () => {
    for (const [name, path, body, foreign, unknown, status] of places)
      assertSame(
        await asStranger('POST', path, { body: body(foreign) }),
        await asStranger('POST', path, { body: body(unknown) }),
        status,
        name,
      );
    // An id of nobody's makes a session; one of another's must not say that it exists.
    for (const path of ['/v1/sessions', `${agent}/sessions`]) {
      const taken = await asStranger('POST', path, { body: { session_id: owner.sessionId, metadata: { a: 1 } } });
      assert.deepEqual([taken.status, taken.text], [404, '{"detail":"Not Found"}']);
      // Whose session it is comes before what else is wrong with the body, as on every other route.
      const keys = Object.fromEntries(Array.from({ length: 51 }, (_value, index) => [`key${index}`, index]));
      for (const metadata of ['none', keys]) {
        const bad = (id: string) => asStranger('POST', path, { body: { session_id: id, metadata } });
        assert.deepEqual([(await bad(owner.sessionId)).status, (await bad(owner.sessionId)).text], [404, '{"detail":"Not Found"}'], path);
        for (const id of [never.sessionId, stranger.sessionId, 'no id']) assert.equal((await bad(id)).status, 422, `${path} ${id}`);
      }
    }
    // An echoed item of a stranger is an item of nobody.
    const echo = (id: string) => asStranger('POST', `${agent}/responses`, { body: { input: [{ type: 'item_reference', id }, said] } });
    const [foreign, unknown] = [await echo(message), await echo('msg_01ARZ3NDEKTSV4RRFFQ69G5FAV')];
    assert.deepEqual([foreign.status, foreign.body.output_text], [unknown.status, unknown.body.output_text]);
    assert.equal(foreign.text.includes(owner.marker), false);
  });
});

test('an id of another org in a header is as unknown as one that never was', async () => {
  const chat = { messages: [{ role: 'user', content: 'hi' }] };
  const mcp = { method: 'tools/list' };
  await leavesOwner(async () => {
    for (const [path, body] of [
      ['/stranger/desk/v1/chat/completions', chat],
      ['/stranger/desk/v1/managed-agents/mcp', mcp],
    ] as const) {
      const as = (id: string) => asStranger('POST', path, { body, headers: { 'x-svc-session': id } });
      assertSame(await as(owner.sessionId), await as(never.sessionId), 404, path);
    }
    const own = await asStranger('POST', `/v1/sessions/${stranger.sessionId}/messages`, {
      body: { text: '/say mine' },
      headers: { 'idempotency-key': 'shared' },
    });
    assert.deepEqual([own.status, own.body.text, own.headers['idempotent-replayed']], [200, 'mine', undefined], 'keys are kept per org');
    const elsewhere = await asStranger('GET', '/api/organization', { headers: { 'x-parley-organization': owner.slug } });
    assert.equal(elsewhere.body.organization.slug, stranger.slug, 'a key is of one org, whatever the header says');
  });
});

test('an id of another org in a cursor is as unknown as one that never was', async () => {
  let count = 0;
  for (const operation of operations.filter((candidate) => candidate.query.some(({ name }) => name === 'cursor'))) {
    const first = await asOwner('GET', `${pathOf(operation, owner)}?limit=1`);
    const cursor: string | null = first.body.next_cursor ?? first.body.meta?.next_cursor ?? null;
    if (cursor === null) continue;
    count += 1;
    await leavesOwner(async () => {
      const path = `${pathOf(operation, stranger)}?limit=200&cursor=${encodeURIComponent(cursor)}`;
      const answer = await asStranger('GET', path);
      assert.equal(answer.status, 200, `${operation.name}: ${answer.text}`);
      assert.equal(answer.text.includes(owner.marker), false, operation.name);
      const rows: Record<string, unknown>[] = answer.body.data;
      const own = await asStranger('GET', `${pathOf(operation, stranger)}?limit=200`);
      for (const row of rows)
        assert.ok(own.text.includes(JSON.stringify(row).slice(1, -1)), `${operation.name}: only what the stranger has`);
    });
  }
  assert.ok(count >= 2, `${count} lists had a next page`);
});

test('an id of another org in a query is as unknown as one that never was', async () => {
  const values = [owner.marker, owner.sessionId, owner.responseId, message, requestId, owner.slug, ...Object.values(owner.ids)];
  await leavesOwner(async () => {
    let count = 0;
    for (const operation of operations.filter((candidate) => candidate.method === 'GET' && !candidate.path.endsWith('/stream'))) {
      for (const { name } of operation.query) {
        for (const value of values) {
          const path = `${pathOf(operation, stranger)}?${name}=${encodeURIComponent(value)}`;
          const answer = await asStranger('GET', path, { headers: { accept: 'application/json' } });
          assert.ok([200, 400, 404, 422].includes(answer.status), `${path}: ${answer.status} ${answer.text}`);
          // Never asked for, so that not even the stranger's own audit log, which names the filters of each export, holds it.
          assert.equal(answer.text.includes(waiting.body.id), false, path);
          if (!operation.path.startsWith('/api/audit')) assert.equal(answer.text.replaceAll(value, '').includes(owner.marker), false, path);
          count += 1;
        }
      }
    }
    assert.ok(count > 100, `${count} questions`);
  });
});
