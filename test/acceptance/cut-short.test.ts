// A turn that goes on while the server that shows it stops: nobody may take a part of its answer for the whole.
// One engine: this is about how the log is shown on a wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { connect, type EventStream } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();
const slow = '/delay 20\n/words 30';

/** Does what closing the server does to those who watch, and leaves it running, so that the turns end. */
function cutShort(): void {
  app.server.streams.close();
  app.context.feed.close();
}

async function running(): Promise<void> {
  while (app.context.runner.running.size === 0) await new Promise(setImmediate);
  // Whoever waits for the answer has begun to.
  while (app.context.feed.watcherCount === 0) await new Promise(setImmediate);
}

test('a stream whose key is revoked ends with an error, and its turn goes on', async () => {
  const tenant = await createTenant(url);
  const minted = await tenant.post('/api/api_keys', { name: 'Doomed', scopes: [] });
  const doomed = connect(url, minted.body.secret);
  const session = await tenant.session();
  const native = await doomed.stream(`/v1/sessions/${session}/messages`, { text: slow, stream: true });
  const responses = await doomed.stream(`${tenant.agentPath}/v1/responses`, { input: slow, stream: true });
  await native.until('text');
  await responses.until('response.output_text.delta');
  assert.equal((await tenant.delete(`/api/api_keys/${minted.body.api_key.id}`)).status, 204);
  assert.equal((await native.rest()).at(-1)?.data.data.code, 'credential_revoked');
  const [failed, closing] = (await responses.rest()).slice(-2).map(({ data }) => data);
  assert.deepEqual([failed.type, failed.response.status, failed.response.error.code], ['response.failed', 'failed', 'credential_revoked']);
  assert.deepEqual([closing.type, closing.code], ['error', 'credential_revoked']);
  assert.equal((await doomed.get(`/v1/sessions/${session}`)).status, 401);
  await app.context.runner.idle();
  const { body } = await tenant.get(`${tenant.agentPath}/v1/sessions/${session}/messages`);
  assert.equal(body.messages[1].text.split(' ').length, 30);
});

test('a unary call is 503 with Retry-After on every wire, and asking again with its key gives the answer', async () => {
  const tenant = await createTenant(url);
  const session = await tenant.session();
  const calls: [path: string, body: unknown][] = [
    [`/v1/sessions/${session}/messages`, { text: slow }],
    [`${tenant.agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content: slow }] }],
    [`${tenant.agentPath}/v1/responses`, { input: slow }],
  ];
  for (const [path, body] of calls) {
    const send = () => tenant.post(path, body, { 'idempotency-key': path });
    const answering = send();
    await running();
    cutShort();
    const answer = await answering;
    assert.equal(answer.status, 503, `${path}: ${answer.text}`);
    assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
    assert.match(JSON.stringify(answer.body.detail), /shutting down/);
    const again = await send();
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [200, 'true'], path);
  }
});

test('resolving an approval is 503 then, and the same answer again brings the whole continuation', async () => {
  const tenant = await createTenant(url);
  const session = await tenant.session();
  const paused = await tenant.say(session, `/tool bash {"command":"sleep 0.3"}`);
  const resolve = () => tenant.put(`/v1/sessions/${session}/inputs/${paused.pending_input.request_id}`, { decision: 'approve_once' });
  const answering = resolve();
  await running();
  cutShort();
  const answer = await answering;
  assert.equal(answer.status, 503, answer.text);
  const again = await resolve();
  assert.deepEqual([again.status, again.body.events.at(-1).type], [200, 'done']);
});

test('a stream of a turn ends with the error of its wire, and never looks complete', async () => {
  const tenant = await createTenant(url);
  const session = await tenant.session();

  const native = await cut(await tenant.stream(`/v1/sessions/${session}/messages`, { text: slow, stream: true }));
  assert.deepEqual(native.data, {
    type: 'error',
    session_id: session,
    data: { code: 'server_shutdown', provider: null, message: 'The server is restarting. The turn continues without this stream.' },
  });

  const chat = await cut(await chatStream(tenant));
  assert.deepEqual(chat.data, {
    error: { message: native.data.data.message, type: 'server_error', code: 'server_shutdown', provider: null },
  });

  const responses = await tenant.stream(`${tenant.agentPath}/v1/responses`, { input: slow, stream: true });
  const [begun] = await responses.until('response.created');
  const seen = await responses.until('response.output_text.delta');
  cutShort();
  const [before, failed, closing] = [...seen, ...(await responses.rest())].slice(-3);
  assert.ok(failed !== undefined && closing !== undefined);
  await app.context.runner.idle();
  assert.deepEqual([failed.event, failed.data.response.id], ['response.failed', begun?.data.response.id]);
  assert.deepEqual([failed.data.response.status, failed.data.response.error.code], ['failed', 'server_shutdown']);
  assert.equal(failed.data.sequence_number, closing.data.sequence_number);
  assert.equal(closing.event, 'error');
  assert.equal(closing.data.error.code, 'server_shutdown');
  assert.equal(closing.data.sequence_number, before?.data.sequence_number);
  // Its number is that of the last event before it: whoever goes on from there misses nothing.
  const path = `${tenant.agentPath}/v1/responses/${begun?.data.response.id}?stream=true&starting_after=${closing.data.sequence_number}`;
  const rest = await tenant.get(path);
  assert.match(
    rest.text,
    new RegExp(`^event: response\\.\\S+\\ndata: \\{"type":"\\S+","sequence_number":${closing.data.sequence_number + 1},`),
  );
  assert.match(rest.text, /event: response\.completed\n/);
});

test('a stream whose turn can no longer be followed, because its session is gone or reading failed, ends with the error of its wire too', async (t) => {
  const tenant = await createTenant(url);
  const session = await tenant.session();
  const codeOf = async (stream: EventStream) => {
    await stream.next();
    app.context.feed.lookAgain(String(stream.response.headers.get('x-svc-session') ?? session));
    const last = (await stream.rest()).at(-1);
    await app.context.runner.idle();
    return (last?.data.data ?? last?.data.error)?.code;
  };
  const native = () => tenant.stream(`/v1/sessions/${session}/messages`, { text: slow, stream: true });
  t.mock.method(app.context.log, 'exists', async () => false);
  assert.deepEqual([await codeOf(await native()), await codeOf(await chatStream(tenant))], ['session_deleted', 'session_deleted']);
  t.mock.method(app.context.log, 'readPage', () => Promise.reject(new TypeError('a bug')));
  assert.deepEqual(
    [await codeOf(await native()), await codeOf(await chatStream(tenant))],
    ['database_unavailable', 'database_unavailable'],
  );
});

test('a stream is whole also where its session cannot be dropped yet', async (t) => {
  const tenant = await createTenant(url);
  t.mock.method(app.context.turns, 'subscribeTo', () => Promise.reject(Object.assign(new Error('away'), { code: 'ECONNRESET' })));
  const body = { messages: [{ role: 'user', content: '/say all of it' }], stream: true, store: false };
  const chat = await tenant.post(`${tenant.agentPath}/v1/chat/completions`, body);
  assert.match(chat.text, /"finish_reason":"stop"[\s\S]+data: \[DONE\]\n\n$/);
  const responses = await tenant.post(`${tenant.agentPath}/v1/responses`, { input: '/say all of it', stream: true, store: false });
  assert.match(responses.text, /event: response\.completed\n/);
});

test('a stream that is ended while its session is being dropped still has its last frames', async (t) => {
  const tenant = await createTenant(url);
  const body = { messages: [{ role: 'user', content: '/say all of it' }], stream: true, store: false };
  const endWhileDropping = async (path: string, request: unknown) => {
    const dropping = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    t.mock.method(app.context.turns, 'subscribeTo', async () => {
      dropping.resolve();
      await ended.promise;
      throw Object.assign(new Error('away'), { code: 'ECONNRESET' });
    });
    const answer = tenant.post(`${tenant.agentPath}/v1/${path}`, request);
    await dropping.promise;
    cutShort();
    ended.resolve();
    return (await answer).text;
  };
  assert.match(await endWhileDropping('chat/completions', body), /"finish_reason":"stop"[\s\S]+data: \[DONE\]\n\n$/);
  const responses = await endWhileDropping('responses', { input: '/say all of it', stream: true, store: false });
  assert.match(responses, /event: response\.completed\n/);
});

async function chatStream(tenant: Tenant): Promise<EventStream> {
  return tenant.stream(`${tenant.agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content: slow }], stream: true });
}

/** Ends the stream in its middle and gives its last frame. */
async function cut(stream: EventStream) {
  await stream.next();
  cutShort();
  const last = (await stream.rest()).at(-1);
  assert.ok(last !== undefined);
  await app.context.runner.idle();
  return last;
}
