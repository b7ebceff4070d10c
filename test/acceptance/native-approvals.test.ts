import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createDatabase } from '../support/engine.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { untilAccepted } from '../support/turns.ts';
import type { Frame, WireAnswer } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();
const ask = '/tool bash {"command":"echo ran >> log.txt; cat log.txt"}\n/say All done.';

const resolve = (tenant: Tenant, id: string, request: string, decision: string): Promise<WireAnswer> =>
  tenant.put(`/v1/sessions/${id}/inputs/${request}`, { decision });

const pause = async (tenant: Tenant, id: string, text = ask): Promise<string> => (await tenant.say(id, text)).pending_input.request_id;

const types = (events: { type: string }[]) => events.map((event) => event.type);

test('a unary turn that needs permission answers 200 with the text so far and pending_input', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const body = await tenant.say(id, ask);
  const { pending_input } = body;
  assert.match(pending_input.request_id, /^req_/);
  assert.deepEqual(
    { ...pending_input, message: '' },
    {
      request_id: pending_input.request_id,
      kind: 'tool_use',
      tool: 'bash',
      message: '',
      options: ['approve_once', 'approve_session', 'deny'],
    },
  );
  assert.match(pending_input.message, /echo ran/);
  assert.deepEqual(Object.keys(body).sort(), ['agent', 'messages', 'pending_input', 'session_id', 'text', 'usage']);
  assert.equal(body.messages[1].parts[0].state, 'running');
  assert.equal(body.usage.total_tokens, (await tenant.get('/api/usage')).body.data[0].total_tokens, 'what it took so far');
  for (const base of ['', tenant.agentPath])
    assert.deepEqual((await tenant.get(`${base}/v1/sessions/${id}`)).body.pending_input, pending_input);
  await resolve(tenant, id, pending_input.request_id, 'deny');
});

test('a stream ends after input_required, whose data is the pending input', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: ask, stream: true })).rest();
  assert.deepEqual(
    frames.map((frame: Frame) => frame.event),
    ['step_start', 'tool_use', 'input_required'],
  );
  const pending = (await tenant.get(`/v1/sessions/${id}`)).body.pending_input;
  assert.deepEqual(frames[2]?.data, { type: 'input_required', session_id: id, data: pending });
  await resolve(tenant, id, pending.request_id, 'deny');
});

test('approve_once runs the action and returns the rest of the turn and the session', async () => {
  const tenant = await createTenant(url);
  for (const base of ['', tenant.agentPath]) {
    const id = await tenant.session();
    const request = await pause(tenant, id);
    const answer = await tenant.put(`${base}/v1/sessions/${id}/inputs/${request}`, { decision: 'approve_once' });
    assert.equal(answer.status, 200);
    const { events, session } = answer.body;
    assert.deepEqual(types(events), ['tool_use', 'step_finish', 'step_start', 'text', 'step_finish', 'done']);
    for (const event of events) assert.deepEqual(Object.keys(event).sort(), ['data', 'type']);
    assert.equal(events[0].data.part.state, 'completed');
    assert.match(events[0].data.part.output, /ran/);
    assert.deepEqual(events[3].data, { part: { type: 'text', text: 'All done.' } });
    assert.deepEqual(Object.keys(events[5].data), ['usage']);
    assert.equal(session.id, id);
    assert.equal(session.pending_input, null);
    assert.equal('agent' in session, base !== '');
    await pause(tenant, id);
    await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  }
});

test('approve_session allows this and similar actions for the rest of the session, and of no other', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await resolve(tenant, id, await pause(tenant, id), 'approve_session');
  const again = await tenant.say(id, '/tool bash {"command":"echo something else"}\n/say Fine.');
  assert.deepEqual([again.text, again.pending_input], ['Fine.', undefined]);
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  await tenant.post('/v1/sessions', { session_id: id });
  assert.equal((await tenant.say(id, ask)).text, 'All done.', 'also after it was stopped and resumed');
  const files = await tenant.say(id, '/tool files {"operation":"write","path":"a.txt","content":"x"}');
  assert.equal(files.pending_input.tool, 'files', 'another tool is not similar');
  await resolve(tenant, id, files.pending_input.request_id, 'deny');
  const other = await tenant.session();
  await resolve(tenant, other, await pause(tenant, other), 'deny');
});

test('deny marks the terminal done, runs nothing, and the agent goes on', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const request = await pause(tenant, id);
  const { status, body } = await resolve(tenant, id, request, 'deny');
  assert.equal(status, 200);
  assert.deepEqual(types(body.events), ['tool_use', 'step_finish', 'step_start', 'text', 'step_finish', 'done']);
  assert.equal(body.events[0].data.part.state, 'denied');
  const { usage, ...marks } = body.events.at(-1).data;
  assert.deepEqual(marks, { denied: true, request_id: request });
  assert.ok(usage.total_tokens > 0);
  assert.equal(body.session.pending_input, null);
  const { text } = await tenant.say(id, 'which files are in the workspace?');
  assert.doesNotMatch(text, /log\.txt/);
});

test('the same answer twice is 200 with the same events; another answer is 409', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const request = await pause(tenant, id);
  const first = await resolve(tenant, id, request, 'approve_once');
  const again = await resolve(tenant, id, request, 'approve_once');
  assert.equal(again.status, 200);
  assert.deepEqual(again.body.events, first.body.events);
  for (const decision of ['deny', 'approve_session']) {
    const other = await resolve(tenant, id, request, decision);
    assert.deepEqual([other.status, other.body.detail.error], [409, 'input_mismatch']);
  }
  const { text } = await tenant.say(id, 'which files are in the workspace?');
  assert.match(text, /log\.txt/);
});

test('two different answers at the same moment: one counts, the other is 409, and the action runs at most once', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const request = await pause(tenant, id);
  const answers = await Promise.all(
    ['approve_once', 'deny', 'approve_once', 'deny'].map((decision) => resolve(tenant, id, request, decision)),
  );
  assert.deepEqual(answers.map((answer) => answer.status).sort(), [200, 200, 409, 409]);
});

test('a request_id that is not the pending one is 409 and nothing continues', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const none = await resolve(tenant, id, 'req_unknown', 'approve_once');
  assert.deepEqual([none.status, none.body.detail.error], [409, 'input_mismatch']);
  assert.equal(typeof none.body.detail.message, 'string');
  const request = await pause(tenant, id);
  const other = await tenant.session();
  const elsewhere = await pause(tenant, other);
  for (const wrong of ['req_unknown', elsewhere, `${request}x`, encodeURIComponent("';--")]) {
    const answer = await resolve(tenant, id, wrong, 'approve_once');
    assert.deepEqual([answer.status, answer.body.detail.error], [409, 'input_mismatch']);
  }
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.pending_input.request_id, request);
  await resolve(tenant, other, elsewhere, 'deny');
  const stranger = await createTenant(url);
  const theirs = await stranger.session();
  for (const answer of [await resolve(tenant, id, elsewhere, 'deny'), await resolve(stranger, theirs, elsewhere, 'deny')])
    assert.deepEqual([answer.status, answer.body.detail?.error], [409, 'input_mismatch'], 'nor one that was answered in another session');
  await resolve(tenant, id, request, 'deny');
});

test('a decision that is none is 422 and leaves the question open', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const request = await pause(tenant, id);
  for (const body of [{}, { decision: 'allow' }, { decision: null }, { decision: ['deny'] }, [], 'null', '{']) {
    const answer = await tenant.put(`/v1/sessions/${id}/inputs/${request}`, body);
    assert.equal(answer.status, 422, JSON.stringify(body));
  }
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.pending_input.request_id, request);
  await resolve(tenant, id, request, 'deny');
});

test('a message while an approval is pending is 409 input_pending and is not stored', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const request = await pause(tenant, id);
  for (const stream of [false, true]) {
    const refused = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hello?', stream });
    assert.equal(refused.status, 409);
    const { message, ...rest } = refused.body.detail;
    assert.deepEqual(rest, { error: 'input_pending', request_id: request });
    assert.equal(typeof message, 'string');
  }
  await resolve(tenant, id, request, 'approve_once');
  const { body } = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(body.messages.length, 2);
});

test('a message that waits when the turn before it asks runs after the answer, and is no part of it; a stop ends both', async () => {
  const tenant = await createTenant(url);
  for (const ending of ['answer', 'stop']) {
    const id = await tenant.session();
    const held = await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/delay 60000\n/say held up', stream: true });
    await held.until('text');
    const asking = pause(tenant, id);
    await untilAccepted(app, id, 2);
    const waiting = tenant.say(id, '/say after it');
    await untilAccepted(app, id, 3);
    await tenant.post(`${tenant.agentPath}/v1/managed-agents/sessions/${id}/events`, { type: 'user.interrupt' });
    const request = await asking;
    await held.rest();
    if (ending === 'answer') {
      const { body } = await resolve(tenant, id, request, 'approve_once');
      assert.deepEqual(types(body.events), ['tool_use', 'step_finish', 'step_start', 'text', 'step_finish', 'done']);
      assert.equal((await waiting).text, 'after it');
      continue;
    }
    await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
    const { text, stop_reason } = await waiting;
    assert.deepEqual([text, stop_reason], ['', 'interrupted']);
    assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.pending_input, null);
  }
});

test('the message that asked, sent again under its key, has the same question for an answer, also when that was answered', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = () => tenant.post(`/v1/sessions/${id}/messages`, { text: ask }, { 'idempotency-key': 'asks' });
  const first = await send();
  const replayed = [200, 'true', first.text];
  for (let time = 0; time < 2; time += 1) {
    const again = await send();
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed'), again.text], replayed);
    assert.equal((await resolve(tenant, id, first.body.pending_input.request_id, 'deny')).status, 200);
  }
});

test('when the turn asks again the answer ends with input_required and the session has the new question', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const two = '/tool bash {"command":"echo one"}\n/tool bash {"command":"echo two"}\n/say Both.';
  const first = await pause(tenant, id, two);
  const { body } = await resolve(tenant, id, first, 'approve_once');
  assert.deepEqual(types(body.events), ['tool_use', 'input_required']);
  const second = body.session.pending_input;
  assert.notEqual(second.request_id, first);
  assert.deepEqual(body.events.at(-1).data, second);
  const last = await resolve(tenant, id, second.request_id, 'approve_once');
  assert.equal(last.body.events.at(-1).type, 'done');
  const replay = await resolve(tenant, id, first, 'approve_once');
  assert.deepEqual(types(replay.body.events), ['tool_use', 'input_required'], 'what followed the first answer');
});

test('an answer shows the question of its own turn while that is open, never that of a later turn', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const first = await pause(tenant, id, '/tool bash {"command":"echo one"}\n/tool bash {"command":"echo two"}');
  const again = async () => (await resolve(tenant, id, first, 'approve_once')).body;
  const second = (await again()).session.pending_input;
  assert.deepEqual((await again()).session.pending_input, second, 'it still asks');
  assert.equal((await resolve(tenant, id, second.request_id, 'deny')).body.session.pending_input, null);
  const later = await pause(tenant, id);
  const asked = await again();
  assert.deepEqual([asked.events.at(-1).data, asked.session.pending_input], [second, null]);
  const ended = (await resolve(tenant, id, second.request_id, 'deny')).body;
  assert.deepEqual([ended.events.at(-1).type, ended.session.pending_input], ['done', null]);
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.pending_input.request_id, later);
  await resolve(tenant, id, later, 'deny');
});

test('an approval that comes when the server is stopping is refused: the action runs when it is given again', async (t) => {
  const database = await createDatabase();
  const stopping = await startApp(t, { database });
  const { id } = (await stopping.request('POST', '/v1/sessions', { permission_mode: 'interactive' })).body;
  const paused = await stopping.request('POST', `/v1/sessions/${id}/messages`, { text: ask });
  const path = `/v1/sessions/${id}/inputs/${paused.body.pending_input.request_id}`;
  await stopping.context.drain(Promise.resolve());
  const refused = await stopping.request('PUT', path, { decision: 'approve_once' });
  assert.deepEqual([refused.status, refused.headers['retry-after']], [503, '1']);
  assert.deepEqual((await stopping.request('GET', `/v1/sessions/${id}`)).body.pending_input, paused.body.pending_input);
  await stopping.close();
  const next = await startApp(t, { database });
  t.after(database.remove);
  const answer = await next.request('PUT', path, { decision: 'approve_once' });
  assert.match(answer.body.events[0].data.part.output, /ran/);
});
