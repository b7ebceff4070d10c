// What the database makes of the operations of turns, and what it refuses.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { newId } from '../../../src/ids.ts';
import type { ApprovalRequested } from '../../../src/session/events.ts';
import { SessionLog } from '../../../src/session/log.ts';
import type { AdvanceOperation, Operation } from '../../../src/session/operations.ts';
import { pendingInputOf } from '../../../src/session/pending-input.ts';
import { startApp } from '../../support/app.ts';
import { said } from '../../support/written-log.ts';

const app = await startApp({ after });
const { db } = app.context.database;
const log = new SessionLog(app.context.database, 'proc_test', 60_000, false);

const apply = async (operation: Operation) => (await log.apply(operation)).result;

async function newSession(): Promise<string> {
  return (await app.request('POST', '/v1/sessions', {})).body.id;
}

function admission(session: string, turn: string): Operation {
  return {
    kind: 'admit',
    org: 1,
    session,
    turn,
    input: { messageId: newId('msg_'), text: 'Hi' },
    endUserId: undefined,
    fingerprint: undefined,
    idempotencyKey: undefined,
    idempotencyFingerprint: undefined,
    waitsForApproval: false,
    reserveTokens: 0,
    reserveMicros: 0,
    reserveCreditMicros: 0,
  };
}

const used = { model: 'offline/demo', turns: 1, input: 1, output: 1, cached: 0, cost_micros: 2, credit_micros: 0 };
const request: ApprovalRequested = {
  requestId: newId('req_'),
  callId: 'call_1',
  kind: 'tool_use',
  tool: 'bash',
  input: {},
  message: 'Run it?',
  options: ['deny'],
  pattern: '*',
};

test('who lost a turn to another process writes nothing more of it: no step with its files, no pause and no end', async () => {
  const [session, turn] = [await newSession(), newId('turn_')];
  assert.equal((await apply(admission(session, turn))).status, 'started');
  await db.updateTable('turns').set({ process_id: 'proc_other' }).where('id', '=', turn).execute();
  const written = async () => [
    await log.read(session, 0, 10),
    await db.selectFrom('workspace_files').selectAll().execute(),
    await db.selectFrom('approvals').selectAll().execute(),
    await db.selectFrom('budgets').selectAll().execute(),
    await db.selectFrom('turns').selectAll().where('id', '=', turn).execute(),
  ];
  const before = await written();
  const late = { org: 1, session, turn, events: [said('too late')], messages: 1 };
  const steps: AdvanceOperation[] = [
    { ...late, kind: 'append', files: [{ path: 'late.txt', content: '', size: 0 }] },
    { ...late, kind: 'pause', used, request, pendingInput: pendingInputOf(request), webhooks: [] },
    { ...late, kind: 'end', used, webhooks: [] },
    { ...late, kind: 'end', used: [used], webhooks: [] },
  ];
  for (const step of steps) assert.equal((await apply(step)).status, 'lost', step.kind);
  assert.deepEqual(await written(), before);
  await db.updateTable('turns').set({ process_id: 'proc_test' }).where('id', '=', turn).execute();
  assert.equal((await apply({ ...late, kind: 'end', used, webhooks: [] })).status, 'done', 'who holds it does');
});

test('operations of one session that are written together are carried out in the order they came in', async () => {
  const session = await newSession();
  const [first, second, third] = [newId('turn_'), newId('turn_'), newId('turn_')];
  const end = (turn: string): Operation => ({ kind: 'end', org: 1, session, turn, events: [said('end')], messages: 1, used, webhooks: [] });
  const together = (...operations: Operation[]) => Promise.all(operations.map(apply));
  const [begun, behind] = await together(admission(session, first), admission(session, second));
  assert.deepEqual([begun?.status, behind?.status], ['started', 'queued']);
  const [ended, last] = await together(end(first), admission(session, third));
  assert.deepEqual([ended?.next, last?.status], [{ ...begun?.started, ...ended?.next, turn: second, seq: 4 }, 'queued']);
  const file = (content: string) => ({ path: 'notes.txt', content: Buffer.from(content).toString('base64'), size: content.length });
  const step = (content: string): Operation => ({
    kind: 'append',
    org: 1,
    session,
    turn: second,
    events: [],
    messages: undefined,
    files: [file(content)],
  });
  await together(step('old'), step('new'));
  const { content } = await db.selectFrom('workspace_files').select('content').where('path', '=', 'notes.txt').executeTakeFirstOrThrow();
  assert.equal(Buffer.from(content).toString(), 'new');
  assert.deepEqual(
    (await together(end(second), end(third))).map(({ status }) => status),
    ['done', 'done'],
  );
  assert.deepEqual(
    (await log.read(session, 0, 20)).map(({ seq, turnId, type }) => [seq, turnId, type]),
    [first, second, third].flatMap((turn, index) =>
      ['message-received', 'turn-started', 'message-received'].map((type, place) => [3 * index + place + 1, turn, type]),
    ),
  );
});
