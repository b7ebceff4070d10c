// A turn runs once in a process, however slow the database is: two runs would write under the same name, and neither would be refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import type { ApprovalRequested, NewEvent } from '../../../src/session/events.ts';
import { SessionLog } from '../../../src/session/log.ts';
import { pendingInputOf } from '../../../src/session/pending-input.ts';
import { holdLeases } from '../../../src/turn/leases.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { untilAccepted } from '../../support/turns.ts';
import { until } from '../../support/until.ts';

test('an approved call is run once, also where its turn cannot be watched for longer than a lease', { timeout: 60_000 }, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
  const requestId = await pause(app, 'slow', '/tool bash {"command":"echo ran"}');
  const { turns } = app.context;
  const subscribeTo = turns.subscribeTo.bind(turns);
  t.mock.method(turns, 'subscribeTo', async (...args: Parameters<typeof subscribeTo>) => {
    await sleep(1_500);
    return subscribeTo(...args);
  });
  assert.equal((await app.request('PUT', `/v1/sessions/slow/inputs/${requestId}`, { decision: 'approve_once' })).status, 200);
  assert.deepEqual(await resultsIn(app, 'slow'), ['ran']);
});

test('a turn that was claimed here while the answer to its message was late is not begun again', { timeout: 60_000 }, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
  await app.request('POST', '/v1/sessions', { session_id: 'late', permission_mode: 'autonomous' });
  const { log, runner } = app.context;
  const apply = log.apply.bind(log);
  t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
    const applied = await apply(operation);
    if (operation.kind !== 'admit') return applied;
    await until(async () => runner.running.size > 0);
    return { ...applied, late: true };
  });
  const answer = await app.request('POST', '/v1/sessions/late/messages', { text: slowCall });
  assert.equal(answer.status, 200);
  await runner.idle();
  assert.deepEqual(await resultsIn(app, 'late'), ['ran']);
});

for (const [when, hasCome] of [
  ['before', (running: number, hasBroken: boolean) => running === 0 && hasBroken],
  ['after', (running: number) => running > 0],
] as const)
  test(`nor are its calls run again where the run that claimed it broke off ${when} that answer came`, { timeout: 60_000 }, async (t) => {
    const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
    await app.request('POST', '/v1/sessions', { session_id: 'broken', permission_mode: 'autonomous' });
    const { log, runner } = app.context;
    const apply = log.apply.bind(log);
    let hasBroken = false;
    t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
      if (operation.kind === 'append' && operation.events[0]?.type === 'tool-finished' && !hasBroken) {
        hasBroken = true;
        throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
      }
      const applied = await apply(operation);
      if (operation.kind !== 'admit') return applied;
      await until(async () => hasCome(runner.running.size, hasBroken));
      return { ...applied, late: true };
    });
    const answer = await app.request('POST', '/v1/sessions/broken/messages', { text: slowCall });
    assert.equal(answer.status, 200);
    const results = await resultsIn(app, 'broken');
    assert.equal(results.length, 1);
    assert.match(results[0] ?? '', /outcome is unknown/);
  });

test('a turn that has ended while it was being claimed is not run', async (t) => {
  const app = await startApp(t);
  await app.request('POST', '/v1/sessions', { session_id: 'ended' });
  await app.request('POST', '/v1/sessions/ended/messages', { text: 'hello' });
  const { log, runner } = app.context;
  const [event] = (await log.readPage('ended', 0)).events;
  const written = t.mock.method(log, 'apply');
  runner.begin({ turn: event?.turnId ?? '', session: 'ended', org: 1 }, [], { recovered: true });
  await runner.idle();
  assert.equal(written.mock.callCount(), 0);
});

test('an interrupt that comes before its turn has read the log ends the turn: nobody else has gone on with it', {
  timeout: 60_000,
}, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '60000' } });
  const { log, runner, turns } = app.context;
  await app.request('POST', '/v1/sessions', { session_id: 'early' });
  await app.request('POST', '/v1/sessions/early/messages', { text: 'hello' });
  runner.states.drop('early');
  const readToFold = log.readToFold.bind(log);
  t.mock.method(log, 'readToFold', async function* (...args: Parameters<typeof readToFold>) {
    await turns.interrupt(1, 'early', 'interrupt');
    yield* readToFold(...args);
  });
  assert.equal((await app.request('POST', '/v1/sessions/early/messages', { text: '/delay 500\n/words 6' })).status, 200);
  assert.deepEqual((await typesIn(app, 'early')).slice(-2), ['interrupt-requested', 'turn-ended']);
});

test('a turn that goes on after an approval is held here, also where the run that asked has not left yet', {
  timeout: 60_000,
}, async (t) => {
  const left = Promise.withResolvers<void>();
  t.after(() => left.resolve());
  const app = await startApp(t);
  const { log, runner, turns } = app.context;
  const [apply, read] = [log.apply.bind(log), log.read.bind(log)];
  t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
    // Something is written just before the pause: the run reads it from the log before it leaves.
    if (operation.kind === 'pause') await turns.note(1, 'leaving', [note]);
    return apply(operation);
  });
  t.mock.method(log, 'read', async (...args: Parameters<typeof read>) => {
    await left.promise;
    return read(...args);
  });
  await app.request('POST', '/v1/sessions', { session_id: 'leaving' });
  const asked = app.request('POST', '/v1/sessions/leaving/messages', { text: '/tool bash {"command":"sleep 1; echo ran"}' });
  const requestId = await pendingIn(app, 'leaving');
  const answer = app.request('PUT', `/v1/sessions/leaving/inputs/${requestId}`, { decision: 'approve_once' });
  await sleep(300);
  left.resolve();
  await asked;
  await until(async () => (await typesIn(app, 'leaving')).includes('turn-resumed'));
  await sleep(100);
  assert.equal(runner.running.size, 1);
  assert.equal((await answer).status, 200);
  assert.deepEqual(await resultsIn(app, 'leaving'), ['ran']);
});

test('the message behind a turn is begun once, also where it was claimed here while the end of that turn was read', {
  timeout: 60_000,
}, async (t) => {
  const claimed = Promise.withResolvers<void>();
  t.after(() => claimed.resolve());
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
  const { log, runner, turns } = app.context;
  await app.request('POST', '/v1/sessions', { session_id: 'behind', permission_mode: 'autonomous' });
  const [apply, read] = [log.apply.bind(log), log.read.bind(log)];
  t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
    // A second run would find nothing in the log that the first has written.
    if (operation.kind === 'append') await sleep(300);
    return apply(operation);
  });
  t.mock.method(log, 'read', async (...args: Parameters<typeof read>) => {
    await claimed.promise;
    return read(...args);
  });
  const first = app.request('POST', '/v1/sessions/behind/messages', { text: '/delay 100\n/words 4' });
  await until(async () => runner.running.size > 0);
  const second = app.request('POST', '/v1/sessions/behind/messages', { text: slowCall });
  await untilAccepted(app, 'behind', 2);
  await turns.note(1, 'behind', [note]);
  await until(async () => runner.running.size === 2);
  claimed.resolve();
  await Promise.all([first, second]);
  await runner.idle();
  assert.deepEqual(await resultsIn(app, 'behind'), ['ran']);
});

test('what a run does not know of, since another process had its turn and paused it, it does not write', { timeout: 60_000 }, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '60000' } });
  const { runner } = app.context;
  await app.request('POST', '/v1/sessions', { session_id: 'paused' });
  const asked = app.request('POST', '/v1/sessions/paused/messages', { text: '/delay 500\n/words 6' });
  await until(async () => runner.running.size > 0);
  await pauseElsewhere(app, 'paused');
  const answer = await app.request('PUT', '/v1/sessions/paused/inputs/req_1', { decision: 'approve_once' });
  assert.equal(answer.status, 200, answer.text);
  await asked;
  await runner.idle();
  assert.deepEqual(await resultsIn(app, 'paused'), ['ran']);
});

test('a call of the process that had the turn gets a result when the turn is interrupted then', { timeout: 60_000 }, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '60000' } });
  const { runner, turns } = app.context;
  await app.request('POST', '/v1/sessions', { session_id: 'interrupted' });
  const asked = app.request('POST', '/v1/sessions/interrupted/messages', { text: '/delay 500\n/words 6' });
  await until(async () => runner.running.size > 0);
  await pauseElsewhere(app, 'interrupted');
  await turns.interrupt(1, 'interrupted', 'interrupt');
  await asked;
  await runner.idle();
  assert.deepEqual(await resultsIn(app, 'interrupted'), ['Interrupted before it finished.']);
});

test('what a run does not know of, since another process had its turn and died, it does not write', { timeout: 60_000 }, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '60000' } });
  const { database, runner, logger, log: ownLog } = app.context;
  await app.request('POST', '/v1/sessions', { session_id: 'died', permission_mode: 'autonomous' });
  const asked = app.request('POST', '/v1/sessions/died/messages', { text: '/delay 500\n/words 6' });
  await until(async () => runner.running.size > 0);
  const { log, turn } = await takeOver(app, 'died');
  await log.apply({ ...turn, kind: 'append', events: [calling({ command: 'echo ran' })], messages: undefined });
  const leases = await holdLeases({ ...database, engine: 'postgres' }, runner, {
    holderName: () => ownLog.holderName.current(),
    leaseMs: 400,
    logger,
    onBeat() {},
    onStranded() {},
  });
  await asked;
  await runner.idle();
  await leases.release();
  const results = await resultsIn(app, 'died');
  assert.equal(results.length, 1);
  assert.match(results[0] ?? '', /outcome is unknown/);
});

const slowCall = '/delay 300\n/say one two three four\n/tool bash {"command":"echo ran"}';
const note: NewEvent = { type: 'message-received', data: { messageId: 'msg_note', text: 'by the way', silent: true } };
const noUsage = { input: 0, output: 0, cachedInput: 0 };

function calling(input: unknown): NewEvent {
  return { type: 'tool-called', data: { callId: 'call_1', tool: 'bash', input, step: 1, stepUsage: noUsage } };
}

/** Another process takes the session's turn over, and is gone. */
async function takeOver(app: TestApp, session: string) {
  const { database } = app.context;
  const { rows } = await sql<{ id: string }>`update turns set process_id = 'proc_other', lease_until = now() - interval '1 second'
    where session_id = ${session} and state = 'running' returning id`.execute(database.db);
  return { log: new SessionLog(database, 'proc_other', 60_000, false), turn: { org: 1, session, turn: rows[0]?.id ?? '' } };
}

/** Another process takes the session's turn over, calls a tool and asks for its approval. */
async function pauseElsewhere(app: TestApp, session: string): Promise<void> {
  const { log, turn } = await takeOver(app, session);
  const input = { command: 'sleep 2; echo ran' };
  await log.apply({ ...turn, kind: 'append', events: [calling(input)], messages: undefined });
  const request: ApprovalRequested = {
    requestId: 'req_1',
    callId: 'call_1',
    kind: 'tool_use',
    tool: 'bash',
    input,
    message: 'May I?',
    options: ['approve_once'],
    pattern: '*',
    usage: noUsage,
    agent: 'main',
  };
  await log.apply({
    ...turn,
    kind: 'pause',
    events: [{ type: 'approval-requested', data: request }],
    messages: undefined,
    used: [],
    request,
    pendingInput: pendingInputOf(request),
  });
}

async function pause(app: TestApp, session: string, text: string): Promise<string> {
  await app.request('POST', '/v1/sessions', { session_id: session });
  return (await app.request('POST', `/v1/sessions/${session}/messages`, { text })).body.pending_input.request_id;
}

async function pendingIn(app: TestApp, session: string): Promise<string> {
  let requestId: string | undefined;
  await until(async () => {
    requestId = (await app.request('GET', `/v1/sessions/${session}`)).body.pending_input?.request_id;
    return requestId !== undefined;
  });
  return requestId ?? '';
}

async function typesIn(app: TestApp, session: string): Promise<string[]> {
  return (await app.context.log.readPage(session, 0)).events.map(({ type }) => type);
}

async function resultsIn(app: TestApp, session: string): Promise<string[]> {
  const { events } = await app.context.log.readPage(session, 0);
  return events.flatMap((event) => (event.type === 'tool-finished' ? [event.data.output] : []));
}
