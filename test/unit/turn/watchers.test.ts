// What begins to watch a turn and fails before it does: nothing may be left behind of it.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, beforeEach, test } from 'node:test';
import { promisify } from 'node:util';
import { sql } from 'kysely';
import { ServiceError } from '../../../src/errors.ts';
import type { NewSession } from '../../../src/session/sessions.ts';
import { startApp } from '../../support/app.ts';
import { untilAccepted } from '../../support/turns.ts';
import { until } from '../../support/until.ts';

const app = await startApp({ after }, { settings: { PARLEY_GATEWAY: '1', PARLEY_LOG_LEVEL: 'silent' } });
const { feed, log, newSessions, runner, turns, database } = app.context;

beforeEach(() => runner.idle());

test("an answer to an approval whose turn may be another process's by now, which cannot be asked", async (t) => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  const asked = await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"ls"}' });
  const { request_id: requestId } = JSON.parse(asked.text).pending_input;
  t.mock.method(runner, 'mayAct', async () => Promise.reject(new Error('the database is away')));
  const answer = await app.request('PUT', `/v1/sessions/${id}/inputs/${requestId}`, { decision: 'deny' });
  assert.equal(answer.status, 500, answer.text);
  assert.equal(feed.watcherCount, 0);
});

test('an answer to an approval that cannot be watched: what was approved is done all the same', async (t) => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  const asked = await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"echo done"}' });
  t.mock.method(turns, 'subscribeTo', async () => Promise.reject(new Error('the database is away')));
  const answer = await app.request('PUT', `/v1/sessions/${id}/inputs/${asked.body.pending_input.request_id}`, { decision: 'approve_once' });
  assert.equal(answer.status, 500, answer.text);
  assert.equal(runner.running.size, 1);
  await runner.idle();
  const { messages } = (await app.request('GET', `/demo/assistant/v1/sessions/${id}/messages`)).body;
  assert.equal(messages.at(-1).text, 'bash answered: done');
});

test('an answer to an approval that is given twice at the same moment: what was approved is begun once', async (t) => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  const asked = await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"echo done"}' });
  const begin = t.mock.method(runner, 'begin');
  const path = `/v1/sessions/${id}/inputs/${asked.body.pending_input.request_id}`;
  const answers = await Promise.all([1, 2].map(() => app.request('PUT', path, { decision: 'approve_once' })));
  assert.deepEqual([answers.map(({ status }) => status), begin.mock.callCount()], [[200, 200], 1]);
});

test('a message that is refused, and one that was taken so late that another process may run it by now', async (t) => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  const say = (text: string) => app.request('POST', `/v1/sessions/${id}/messages`, { text });
  t.mock.method(runner, 'mayAct', async () => false, { times: 1 });
  const begin = t.mock.method(runner, 'begin');
  const late = say('/say late');
  await untilAccepted(app, id, 1);
  assert.equal(begin.mock.callCount(), 0);
  const { id: turn } = await database.db.selectFrom('turns').select('id').where('session_id', '=', id).executeTakeFirstOrThrow();
  runner.begin({ turn, session: id, org: 1 }, [], { recovered: true });
  assert.equal((await late).body.text, 'late');
  await turns.interrupt(1, id, 'stop');
  assert.equal((await say('/say more')).status, 409);
  assert.equal(feed.watcherCount, 0);
});

test('a call that another one under its key was quicker than, when the session it had opened cannot be dropped', async (t) => {
  t.mock.method(database.db, 'transaction', () => {
    throw new Error('the database is away');
  });
  // Each has opened one before either is admitted: with several connections one may else be done when the other comes.
  const { insert } = newSessions;
  const both = Promise.withResolvers<void>();
  let opened = 0;
  t.mock.method(newSessions, 'insert', async (session: NewSession) => {
    const inserted = await insert.call(newSessions, session);
    opened += 1;
    if (opened === 2) both.resolve();
    await both.promise;
    return inserted;
  });
  const send = () => app.request('POST', '/demo/assistant/v1/responses', { input: '/say once' }, { 'idempotency-key': 'at once' });
  const answers = await Promise.all([send(), send()]);
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 500]);
  assert.equal(feed.watcherCount, 0);
});

test('a submitted message that is refused: nothing is left of a first try, and all of what another may be at', async (t) => {
  const insert = t.mock.method(newSessions, 'insert');
  let tries = 0;
  /** How many sessions a try opened, whether it left one, and whether its event is known. */
  const submit = async (isKnown = false) => {
    tries += 1;
    const id = `evt_refused_${tries}`;
    if (isKnown)
      await sql`insert into gateway_events (org_id, event_id, target, session_id, event)
        values (1, ${id}, 'submit', ${`ses_refused_${tries}`}, '{}')`.execute(database.db);
    insert.mock.resetCalls();
    const count = async () => Number((await sql<{ count: string }>`select count(*) from sessions`.execute(database.db)).rows[0]?.count);
    const before = await count();
    const event = { id, sender_id: 'ada', sender_type: 'human', event_type: 'message', message: 'hi' };
    const { status } = await app.request('POST', '/v1/gateway/events', event);
    const known = await sql`select 1 from gateway_events where event_id = ${id} and state = 'received'`.execute(database.db);
    return [status, insert.mock.callCount(), (await count()) - before, known.rows.length];
  };
  turns.draining = true;
  assert.deepEqual(await submit(), [503, 0, 0, 0], 'before a session is opened, which others would hear of');
  turns.draining = false;
  const admit = t.mock.method(turns, 'admit', () => Promise.reject(new ServiceError('budget', 'Too late.')));
  assert.deepEqual(await submit(), [402, 1, 0, 0]);
  assert.deepEqual(await submit(true), [402, 1, 1, 1]);
  admit.mock.mockImplementation(() => Promise.reject(new Error('the database is away')));
  assert.deepEqual(await submit(), [500, 1, 1, 1], 'it may have been admitted');
});

test('a submitted message whose turn runs and cannot be written down', async () => {
  await sql`alter table gateway_events add constraint unwritable check (state <> 'admitted')`.execute(database.db);
  const event = { sender_id: 'ada', sender_type: 'human', event_type: 'message', message: '/delay 50\n/words 5' };
  const answer = await app.request('POST', '/v1/gateway/events', event);
  assert.equal(answer.status, 500, answer.text);
  assert.equal(runner.running.size, 1);
  assert.equal(feed.watcherCount, 0);
});

test('a message that waited, told of so late that another process may run it by now: it is left to that one', async (t) => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  const say = (text: string) =>
    app.request('POST', `/demo/assistant/v1/managed-agents/sessions/${id}/events`, { type: 'user.message', text });
  await say('/delay 20\n/words 5');
  const mayAct = t.mock.method(runner, 'mayAct', async () => false);
  await say('/say second');
  await runner.idle();
  assert.equal(mayAct.mock.callCount(), 1);
  const turns = await database.db.selectFrom('turns').select('state').where('session_id', '=', id).orderBy('position').execute();
  assert.deepEqual(turns, [{ state: 'ended' }, { state: 'running' }]);
});

test('a turn that is stopped before this process has taken it up, and one that waited behind it', { timeout: 20_000 }, async (t) => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  const say = (text: string) => app.request('POST', `/v1/sessions/${id}/messages`, { text: `/delay 60000\n/say ${text}` });
  const { begin } = runner;
  t.mock.method(runner, 'begin', (...[turn, ...rest]: Parameters<typeof begin>) => {
    runner.interrupt(turn.turn);
    begin.call(runner, turn, ...rest);
  });
  const [first, second] = [say('never said'), say('as little')];
  assert.equal((await first).body.text, '');
  await until(async () => runner.turnOf(id) !== undefined);
  await turns.interrupt(1, id, 'interrupt');
  assert.equal((await second).status, 200);
});

test('a turn that another process has taken over: nobody is shown what it had begun to say here', { timeout: 20_000 }, async () => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  const watcher = feed.subscribe(id, true);
  const isSaid = new Promise<void>((resolve) => {
    watcher.onNews = () => feed.draftsOf(id).length > 0 && resolve();
  });
  const event = { type: 'user.message', text: '/delay 60000\n/words 2' };
  await app.request('POST', `/demo/assistant/v1/managed-agents/sessions/${id}/events`, event);
  await isSaid;
  runner.lose(runner.turnOf(id) ?? '');
  await runner.idle();
  watcher.close();
  assert.deepEqual(feed.draftsOf(id), []);
});

test('an end that was written, before what stands ahead of it could be read: whoever waits is told at the next beat', async (t) => {
  const { id } = JSON.parse((await app.request('POST', '/v1/sessions', {})).text);
  const answer = app.request('POST', `/v1/sessions/${id}/messages`, { text: '/delay 50\n/words 4' });
  await until(async () => runner.turnOf(id) !== undefined);
  const note = { messageId: 'msg_note', text: 'by the way', participantName: 'bob', silent: true };
  const watcher = feed.subscribe(id, false);
  await turns.note(1, id, [{ type: 'message-received', data: note }]);
  assert.equal(watcher.take(0)?.updates.length, 1, 'who watches sees a note at once');
  watcher.close();
  const cut = Object.assign(new Error('cut'), { code: 'ECONNRESET' });
  const read = t.mock.method(log, 'read', () => Promise.reject(cut), { times: 1 });
  assert.equal((await answer).body.text, 'a slow river carries');
  assert.equal(read.mock.callCount(), 1);
});

test('messages that wait behind an approval, whose clients leave while they wait, or have left before', { timeout: 20_000 }, async (t) => {
  const { id } = (await app.request('POST', '/v1/sessions', {})).body;
  const path = `/v1/sessions/${id}/messages`;
  const { port, hostname } = new URL(await app.listen());
  const post = (to: string, body: unknown) => {
    const text = JSON.stringify(body);
    const socket = connect(Number(port), hostname);
    const head = `Host: x\r\nAuthorization: Bearer ${app.apiKey}\r\nX-Svc-Session: ${id}\r\nContent-Type: application/json`;
    socket.write(`POST ${to} HTTP/1.1\r\n${head}\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    return socket;
  };
  const sendAll = () => [
    post(path, { text: 'and then?' }),
    post(path, { text: 'and then?', stream: true }),
    post('/demo/assistant/v1/chat/completions', { messages: [{ role: 'user', content: 'and then?' }] }),
    post('/demo/assistant/v1/responses', { input: 'and then?', conversation: id }),
  ];
  const apply = log.apply.bind(log);
  const mayPause = Promise.withResolvers<void>();
  t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
    if (operation.kind === 'pause') await mayPause.promise;
    return apply(operation);
  });
  const asked = app.request('POST', path, { text: '/tool bash {"command":"ls"}' });
  await untilAccepted(app, id, 1);
  const waiting = sendAll();
  await untilAccepted(app, id, 5);

  const admit = turns.admit.bind(turns);
  const held = Promise.withResolvers<void>();
  const admitted = t.mock.method(turns, 'admit', async (...given: Parameters<typeof admit>) => {
    const turn = await admit(...given);
    await held.promise;
    return turn;
  });
  const early = sendAll();
  await untilAccepted(app, id, 9);
  assert.equal(admitted.mock.callCount(), 4);
  for (const socket of early) socket.resetAndDestroy();
  const countConnections = promisify(app.server.server.getConnections.bind(app.server.server));
  await until(async () => (await countConnections()) === 4);
  held.resolve();
  mayPause.resolve();
  assert.equal((await asked).body.pending_input.kind, 'tool_use');
  await until(async () => feed.watcherCount === 4);
  for (const socket of waiting) socket.resetAndDestroy();
  await until(async () => feed.watcherCount === 0);
  assert.equal(app.server.streams.size, 0);
  await turns.interrupt(1, id, 'stop');
});
