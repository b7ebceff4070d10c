import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { notFoundText, pinned, sessionCount } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/responses`;
const ask = '/tool bash {"command":"echo hi"}';
const user = (content: string) => ({ role: 'user', content });
const answerTo = (request: { id: string }, approve: boolean) => ({
  type: 'mcp_approval_response',
  approval_request_id: request.id,
  approve,
});
const guarded = { tools: ['bash'] };

test('a guarded tool is an mcp_approval_request item, unary and streamed', async () => {
  const tenant = await createTenant(url, guarded);
  const unary = await tenant.post(pathOf(tenant), { input: ask });
  const item =
    '{"id":"req_ID","type":"mcp_approval_request","server_label":"parley","name":"bash","arguments":"{\\"command\\":\\"echo hi\\"}"}';
  assert.ok(pinned(unary.text).includes(`"status":"completed","model":"helper","output":[${item}],"output_text":""`), unary.text);
  assert.ok(unary.body.usage.total_tokens > 0);
  const streamed = pinned((await tenant.post(pathOf(tenant), { input: ask, stream: true })).text).split('\n\n');
  assert.deepEqual(
    streamed.map((frame) => frame.split('\n')[0]),
    [
      'event: response.created',
      'event: response.in_progress',
      'event: response.output_item.added',
      'event: response.output_item.done',
      'event: response.completed',
      '',
    ],
  );
  assert.equal(
    streamed[3],
    `event: response.output_item.done\ndata: {"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":${item}}`,
  );
});

test('an mcp_approval_response goes on with the turn, as a response of its own', async () => {
  const tenant = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask, model: 'm' });
  const [request] = paused.body.output;
  const metadata = { colour: 'red', again: null, amount: 1 };
  const body = { input: [answerTo(request, true)], previous_response_id: paused.body.id, model: 'n', metadata };
  const done = await tenant.post(pathOf(tenant), body);
  assert.equal(done.status, 200, done.text);
  assert.equal(done.body.output_text, 'bash answered: hi');
  assert.equal(done.body.previous_response_id, paused.body.id);
  assert.notEqual(done.body.id, paused.body.id);
  assert.equal(done.headers.get('x-svc-session'), paused.headers.get('x-svc-session'));
  const fetched = await tenant.get(`${pathOf(tenant)}/${done.body.id}`);
  assert.equal(fetched.text, done.text, 'with what its own request said');
  assert.deepEqual((await tenant.get(`${pathOf(tenant)}/${paused.body.id}`)).body, paused.body, 'the first one stays what it was');
  const [used] = (await tenant.get('/api/usage')).body.data;
  assert.equal(paused.body.usage.total_tokens + done.body.usage.total_tokens, used.total_tokens, 'each has the usage of its own stretch');
  assert.equal(used.turns, 1);
  const next = await tenant.post(pathOf(tenant), { input: 'next', previous_response_id: done.body.id });
  assert.equal(next.body.output_text, 'You said: "next". This is turn 2 of our conversation.');
});

test('a response that goes on has the time of its approval, whenever and however it is read', async () => {
  const tenant = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask });
  const answer = { input: [answerTo(paused.body.output[0], true)], previous_response_id: paused.body.id };
  const { id } = (await tenant.post(pathOf(tenant), answer)).body;
  await sql`update events set created_at = '2030-01-02 03:04:05+00' where session_id = ${paused.headers.get('x-svc-session')}
    and type = 'approval-resolved'`.execute(app.context.database.db);
  for (const { text } of [
    await tenant.post(pathOf(tenant), answer),
    await tenant.post(pathOf(tenant), { ...answer, stream: true }),
    await tenant.get(`${pathOf(tenant)}/${id}`),
    await tenant.get(`${pathOf(tenant)}/${id}?stream=true`),
  ]) {
    const shown = [...text.matchAll(/"id":"(resp_\w+)","object":"response","created_at":(\d+)/g)];
    assert.equal(shown.length, text.startsWith('event: response.created\n') ? 3 : 1, text);
    for (const [, shownId, createdAt] of shown) assert.deepEqual([shownId, createdAt], [id, '1893553445']);
  }
  assert.equal((await tenant.get(`${pathOf(tenant)}/${paused.body.id}`)).text, paused.text, 'the one that asked keeps that of its turn');
});

test('deleting the response that asked leaves the one that went on, and its conversation', async () => {
  const tenant = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask });
  const done = await tenant.post(pathOf(tenant), { input: [answerTo(paused.body.output[0], true)], previous_response_id: paused.body.id });
  await tenant.delete(`${pathOf(tenant)}/${paused.body.id}`);
  assert.equal((await tenant.get(`${pathOf(tenant)}/${paused.body.id}`)).status, 404);
  assert.equal((await tenant.get(`${pathOf(tenant)}/${done.body.id}`)).body.output_text, 'bash answered: hi');
  const next = await tenant.post(pathOf(tenant), { input: '/say on', previous_response_id: done.body.id });
  assert.equal(next.body.output_text, 'on');
  for (const { body } of [done, next]) await tenant.delete(`${pathOf(tenant)}/${body.id}`);
  assert.equal(await sessionCount(tenant), 0, 'nothing is left of it');
});

test('an answer under an Idempotency-Key says when it is a repetition, and its key is nobody else’s', async () => {
  const tenant = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask });
  const body = { input: [answerTo(paused.body.output[0], true)], previous_response_id: paused.body.id };
  const send = (sent: unknown) => tenant.post(pathOf(tenant), sent, { 'idempotency-key': 'answer-1' });
  const [first, second] = [await send(body), await send(body)];
  assert.equal(second.text, first.text);
  assert.deepEqual([first.headers.get('idempotent-replayed'), second.headers.get('idempotent-replayed')], [null, 'true']);
  const other = await send({ input: '/say something else' });
  assert.deepEqual([other.status, other.body.detail.error], [422, 'idempotency_key_reused']);
});

test('the same answer again is the same response, another answer is 409', async () => {
  const tenant = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask });
  const [request] = paused.body.output;
  const send = (approve: boolean) =>
    tenant.post(pathOf(tenant), { input: [answerTo(request, approve)], previous_response_id: paused.body.id });
  const first = await send(true);
  assert.equal((await send(true)).text, first.text);
  const other = await send(false);
  assert.deepEqual([other.status, other.body.error.code], [409, 'input_mismatch']);
  await tenant.delete(`${pathOf(tenant)}/${first.body.id}`);
  assert.equal((await send(true)).text, first.text);
  const next = await tenant.post(pathOf(tenant), { input: 'next', previous_response_id: first.body.id });
  assert.equal(next.status, 404, 'it stays deleted');
});

test('an approval that was given elsewhere, once or for the session, is the same answer; a denial is another one', async () => {
  const tenant = await createTenant(url, guarded);
  for (const decision of ['approve_once', 'approve_session', 'deny']) {
    const paused = await tenant.post(pathOf(tenant), { input: ask });
    const [request] = paused.body.output;
    const input = `/v1/sessions/${paused.headers.get('x-svc-session')}/inputs/${request.id}`;
    assert.equal((await tenant.put(input, { decision })).status, 200);
    const send = (approve: boolean) =>
      tenant.post(pathOf(tenant), { input: [answerTo(request, approve)], previous_response_id: paused.body.id });
    const isApproved = decision !== 'deny';
    const [same, other] = [await send(isApproved), await send(!isApproved)];
    assert.equal(same.status, 200, `${decision}: ${same.text}`);
    assert.match(same.body.output_text, isApproved ? /^bash answered: hi$/ : /denied/);
    assert.equal((await tenant.get(`${pathOf(tenant)}/${same.body.id}`)).body.output_text, same.body.output_text);
    assert.deepEqual([other.status, other.body.error.code], [409, 'input_mismatch'], decision);
  }
});

test('a denial is seen by the agent, which goes on without the tool', async () => {
  const tenant = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask });
  const [request] = paused.body.output;
  const denied = await tenant.post(pathOf(tenant), {
    stream: true,
    input: [answerTo(request, false)],
    previous_response_id: paused.body.id,
  });
  assert.ok(denied.text.includes('"output_text":"bash failed: The user denied this action. Continue without it."'), denied.text);
  const id = /resp_\w+/.exec(denied.text)?.[0];
  assert.equal((await tenant.get(`${pathOf(tenant)}/${id}?stream=true`)).text, denied.text);
});

test('the answer finds its session by the request alone, also when the whole conversation is sent again', async () => {
  const tenant = await createTenant(url, guarded);
  const alone = await tenant.post(pathOf(tenant), { input: ask });
  const done = await tenant.post(pathOf(tenant), { input: [answerTo(alone.body.output[0], true)] });
  assert.equal(done.headers.get('x-svc-session'), alone.headers.get('x-svc-session'));
  const again = await tenant.post(pathOf(tenant), { input: ask });
  const [request] = again.body.output;
  const history = [user(ask), request, answerTo(request, true)];
  const answered = await tenant.post(pathOf(tenant), { input: history });
  assert.equal(answered.body.output_text, 'bash answered: hi');
  const later = await tenant.post(pathOf(tenant), { input: [...history, ...answered.body.output, user('and then?')] });
  assert.equal(later.body.output_text, 'You said: "and then?". This is turn 2 of our conversation.', 'an old answer is not given again');
  assert.equal(later.headers.get('x-svc-session'), again.headers.get('x-svc-session'));
});

test('a turn may ask twice: each pause is a response', async () => {
  const tenant = await createTenant(url, guarded);
  const first = await tenant.post(pathOf(tenant), { input: `${ask}\n/tool bash {"command":"echo ho"}` });
  const second = await tenant.post(pathOf(tenant), { input: [answerTo(first.body.output[0], true)], previous_response_id: first.body.id });
  assert.equal(second.body.output[0].arguments, '{"command":"echo ho"}');
  const answers = [first, second].map(({ body }) => answerTo(body.output[0], true));
  const third = await tenant.post(pathOf(tenant), { input: answers, previous_response_id: second.body.id });
  assert.equal(third.body.output_text, 'bash answered: hi\nbash answered: ho');
  assert.equal(new Set([first, second, third].map(({ body }) => body.id)).size, 3);
});

test('a message while an approval is pending is 409; with the answer beside it, 422; an unknown request is 404', async () => {
  const tenant = await createTenant(url, guarded);
  const other = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask });
  const [request] = paused.body.output;
  const pending = await tenant.post(pathOf(tenant), { input: 'hello?', previous_response_id: paused.body.id });
  assert.deepEqual([pending.status, pending.body.error.code, pending.body.detail.request_id], [409, 'input_pending', request.id]);
  assert.equal(pending.headers.get('x-svc-session'), paused.headers.get('x-svc-session'), 'it is on a refusal too');
  const both = await tenant.post(pathOf(tenant), {
    input: [answerTo(request, true), user('hello?')],
    previous_response_id: paused.body.id,
  });
  assert.equal(both.status, 422);
  for (const missing of [
    await other.post(pathOf(other), { input: [answerTo(request, true)] }),
    await tenant.post(pathOf(tenant), { input: [answerTo({ id: 'req_nowhere' }, true)] }),
  ])
    assert.deepEqual([missing.status, missing.text], [404, notFoundText]);
  const malformed = { input: [{ type: 'mcp_approval_response', approval_request_id: request.id }], previous_response_id: paused.body.id };
  assert.equal((await tenant.post(pathOf(tenant), malformed)).status, 422);
  const metadata = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, index]));
  const tooMany = await tenant.post(pathOf(tenant), { input: [answerTo(request, true)], previous_response_id: paused.body.id, metadata });
  assert.deepEqual([tooMany.status, tooMany.body.detail], [422, 'metadata: at most 50 keys'], 'as with a message');
  const stale = { input: [answerTo({ id: 'req_other' }, true)], previous_response_id: paused.body.id };
  assert.equal((await tenant.post(pathOf(tenant), stale)).status, 409);
  const session = await tenant.get(`${tenant.agentPath}/v1/sessions/${paused.headers.get('x-svc-session')}`);
  assert.equal(session.body.pending_input.request_id, request.id, 'it still waits');
});

test('a message behind an answer that was given before runs, also when the client never saw what came of it', async () => {
  const tenant = await createTenant(url, guarded);
  for (const store of [true, false]) {
    const paused = await tenant.post(pathOf(tenant), { input: ask, store });
    const [request] = paused.body.output;
    const reference = store ? [{ type: 'item_reference', id: request.id }] : [];
    const whole = [user(ask), ...reference, answerTo(request, true)];
    const early = await tenant.post(pathOf(tenant), { input: [...whole, user('next')], store });
    assert.deepEqual([early.status, early.body.error?.code], [409, 'input_pending'], 'one that was not given yet');
    assert.equal((await tenant.post(pathOf(tenant), { input: whole, store })).status, 200);
    const next = await tenant.post(pathOf(tenant), { input: [...whole, user('next')], store });
    assert.equal(next.body.output_text, 'You said: "next". This is turn 2 of our conversation.', next.text);
  }
});

test('an unstored session is kept while it waits, and dropped after the turn', async () => {
  const tenant = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask, store: false });
  assert.equal(await sessionCount(tenant), 1);
  const done = await tenant.post(pathOf(tenant), { input: [answerTo(paused.body.output[0], true)], previous_response_id: paused.body.id });
  assert.equal(done.body.output_text, 'bash answered: hi');
  assert.equal(await sessionCount(tenant), 0);
  for (const table of ['events', 'turns', 'approvals'] as const) {
    const left = await app.context.database.db.selectFrom(table).selectAll().where('org_id', '=', tenant.orgId).execute();
    assert.deepEqual(left, [], table);
  }
});

test('an unstored session that is gone leaves the answers given under an Idempotency-Key, to the request and to its approval', async () => {
  const tenant = await createTenant(url, guarded);
  const send = (key: string, body: unknown) => tenant.post(pathOf(tenant), body, { 'idempotency-key': key });
  for (const stream of [false, true]) {
    const asked = { input: ask, store: false };
    const paused = await send(`ask ${stream}`, asked);
    const [request] = paused.body.output;
    const byId = { input: [answerTo(request, true)], previous_response_id: paused.body.id, stream };
    const toldAgain = { input: [user(ask), request, answerTo(request, true)], stream };
    const answered = stream ? toldAgain : byId;
    const done = await send(`answer ${stream}`, answered);
    assert.match(done.text, /bash answered: hi/);
    assert.equal(await sessionCount(tenant), 0);
    for (const [again, first] of [
      [await send(`answer ${stream}`, answered), done],
      [await send(`ask ${stream}`, asked), paused],
    ] as const) {
      assert.deepEqual([again.status, again.text, again.headers.get('idempotent-replayed')], [200, first.text, 'true']);
      assert.equal(again.headers.get('x-svc-session'), first.headers.get('x-svc-session'));
    }
    const other = await send(`answer ${stream}`, stream ? byId : toldAgain);
    assert.equal(other.status, 404, 'another request under the key: what it names is gone');
  }

  const attempt = (count: string, body: unknown) => tenant.post(pathOf(tenant), body, { 'x-stainless-retry-count': count });
  const paused = await attempt('0', { input: ask, store: false });
  const answered = { input: [answerTo(paused.body.output[0], true)] };
  const done = await attempt('0', answered);
  assert.deepEqual((await attempt('1', answered)).body, done.body, "and to a client library's own retry");
  assert.equal((await attempt('0', answered)).status, 404);
});

test('an approval that was gone on from is history, also in a conversation that is not kept here', async () => {
  const tenant = await createTenant(url, guarded);
  const paused = await tenant.post(pathOf(tenant), { input: ask, store: false });
  const [request] = paused.body.output;
  const told = [user(ask), request, answerTo(request, true)];
  const done = await tenant.post(pathOf(tenant), { input: told, store: false });
  const next = await tenant.post(pathOf(tenant), { input: [...told, ...done.body.output, user('and then?')], store: false });
  assert.deepEqual([next.status, next.body.output_text], [200, 'You said: "and then?". This is turn 2 of our conversation.']);
  const asked = { type: 'mcp_approval_request', id: 'mcpr_1', server_label: 'elsewhere', name: 'bash', arguments: '{}' };
  const foreign = [user('Clean up.'), asked, answerTo(asked, true), { role: 'assistant', content: 'Done.' }, user('Sure?')];
  const moved = await tenant.post(pathOf(tenant), { input: foreign });
  assert.deepEqual([moved.status, moved.body.output_text], [200, 'You said: "Sure?". This is turn 2 of our conversation.']);
});
