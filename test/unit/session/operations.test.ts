// What the database makes of the operations of turns, and what it refuses.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { newId } from '../../../src/ids.ts';
import type { ApprovalRequested } from '../../../src/session/events.ts';
import { SessionLog } from '../../../src/session/log.ts';
import type { AdvanceOperation, Operation } from '../../../src/session/operations.ts';
import { pendingInputOf } from '../../../src/session/pending-input.ts';
import { startApp } from '../../support/app.ts';
import { admission, said } from '../../support/written-log.ts';

const app = await startApp({ after });
const { db } = app.context.database;
const log = new SessionLog(app.context.database, 'proc_test', 60_000, false);

type AnyResult = { status: string; seq?: number; started?: object; next?: object | null };
const apply = async (operation: Operation): Promise<AnyResult> => (await log.apply(operation)).result;

async function newSession(metadata: Record<string, unknown> = {}): Promise<string> {
  return (await app.request('POST', '/v1/sessions', { metadata })).body.id;
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

test('turns of one organization and one instance that end together are counted all', async () => {
  const turns = await Promise.all([1, 10, 100].map(async (input) => ({ input, session: await newSession({ end_user_id: 'ann' }) })));
  const ids = turns.map(() => newId('turn_'));
  await Promise.all(turns.map(({ session }, index) => apply(admission(session, ids[index] ?? ''))));
  const spending = async () => {
    const budget = await db.selectFrom('budgets').selectAll().where('org_id', '=', 1).executeTakeFirstOrThrow();
    return [budget.tokens_used, budget.spent_micros, budget.credits_spent_micros];
  };
  const before = await spending();
  await Promise.all(
    turns.map(({ input, session }, index) => {
      const step = { org: 1, session, turn: ids[index] ?? '', events: [], messages: undefined, webhooks: [] };
      const cost = { output: 0, cached: input, cost_micros: 2 * input, credit_micros: 3 * input };
      return apply({ ...step, kind: 'end', used: { model: 'together', turns: 1, input, ...cost } });
    }),
  );
  const after = await spending();
  assert.deepEqual(
    after.map((sum, index) => sum - (before[index] ?? 0)),
    [111, 222, 333],
  );
  const usage = await db.selectFrom('usage_daily').selectAll().where('model', '=', 'together').execute();
  assert.deepEqual(
    usage.map((day) => [day.turns, day.input_tokens, day.cached_tokens, day.cost_micros]),
    [[3, 111, 111, 222]],
  );
  const instances = await db.selectFrom('instance_spend').select('spent_micros').where('instance_key', 'like', '%ann%').execute();
  assert.deepEqual(instances, [{ spent_micros: 222 }]);
});

test('a turn holds of the credits and of its instance what it may take of each, and gives it back when it pauses, ends or never runs', async () => {
  const caps = { credits_micros: 1_000, instance_spend_cap_micros: 1_000 };
  await db.updateTable('budgets').set(caps).where('org_id', '=', 1).execute();
  const held = async () => {
    const budget = await db.selectFrom('budgets').selectAll().where('org_id', '=', 1).executeTakeFirstOrThrow();
    const instances = await db.selectFrom('instance_spend').select('reserved_micros').where('instance_key', 'like', '%bea%').execute();
    return [budget.reserved_tokens, budget.reserved_micros, ...instances.map(({ reserved_micros }) => reserved_micros)];
  };
  const reservation = { reserveTokens: 10, reserveMicros: 30, reserveCreditMicros: 20 };
  const session = await newSession({ end_user_id: 'bea' });
  const [turn, behind] = [newId('turn_'), newId('turn_')];
  const asked = { ...request, requestId: newId('req_') };
  const step = { org: 1, session, turn, events: [], messages: undefined, used: { ...used, cost_micros: 0 }, webhooks: [] };
  assert.equal((await apply({ ...admission(session, turn), ...reservation })).status, 'started');
  assert.deepEqual(await held(), [10, 20, 30]);
  await apply({ ...step, kind: 'pause', request: asked, pendingInput: pendingInputOf(asked) });
  assert.deepEqual(await held(), [0, 0, 0]);
  const answer = { org: 1, session, requestId: asked.requestId, decision: 'deny' as const, ...reservation };
  assert.equal((await apply({ ...answer, kind: 'resolve' })).status, 'resumed');
  assert.deepEqual(await held(), [10, 20, 30]);
  await apply({ ...admission(session, behind), ...reservation });
  assert.deepEqual(await held(), [20, 40, 60]);
  await apply({ kind: 'stop', org: 1, session, reason: 'stop' });
  await apply({ ...step, kind: 'end' });
  assert.deepEqual(await held(), [0, 0, 0]);
  const alone = { ...step, session: await newSession({ end_user_id: 'bea' }), turn: newId('turn_') };
  await apply({ ...admission(alone.session, alone.turn), ...reservation });
  assert.deepEqual(await held(), [10, 20, 30]);
  const none = { credits_micros: null, instance_spend_cap_micros: null };
  await db.updateTable('budgets').set(none).where('org_id', '=', 1).execute();
  await apply({ ...alone, kind: 'end' });
  assert.deepEqual(await held(), [0, 0, 0], 'also where no cap is left meanwhile');
});

test('a turn ends as any other where a cap was set meanwhile that is far below what is used, and the next has nothing more to report', async () => {
  const [session, turn] = [await newSession(), newId('turn_')];
  await apply(admission(session, turn));
  const setBudget = (values: object) => db.updateTable('budgets').set(values).where('org_id', '=', 1).execute();
  const budget = () => db.selectFrom('budgets').selectAll().where('org_id', '=', 1).executeTakeFirstOrThrow();
  const { tokens_used } = await budget();
  await setBudget({ total_tokens_cap: 1, tokens_used: 1_000_000_000 });
  const end: Operation = { kind: 'end', org: 1, session, turn, events: [], messages: undefined, used, webhooks: [] };
  assert.equal((await apply(end)).status, 'done');
  assert.equal((await budget()).threshold_fired, 100);
  await setBudget({ total_tokens_cap: null, tokens_used, threshold_fired: 0 });
});

test('a turn is interrupted once, however often that is asked for, and does not pause any more', async () => {
  const [session, turn] = [await newSession(), newId('turn_')];
  await apply(admission(session, turn));
  const interrupt: Operation = { kind: 'interrupt', org: 1, session, reason: 'user' };
  assert.deepEqual(await apply(interrupt), { status: 'interrupting', turn, seq: 3 });
  for (const again of [interrupt, { ...interrupt, kind: 'stop' as const }]) assert.deepEqual(await apply(again), { status: 'idle' });
  const step = { org: 1, session, turn, events: [said('step')], messages: 1 };
  const pause: Operation = { ...step, kind: 'pause', used, request, pendingInput: pendingInputOf(request), webhooks: [] };
  assert.deepEqual(await apply(pause), { status: 'interrupted', seq: 4 });
  assert.equal((await apply({ ...step, kind: 'end', used, webhooks: [] })).seq, 4);
  assert.deepEqual(
    (await log.read(session, 0, 10)).map(({ type }) => type),
    ['message-received', 'turn-started', 'interrupt-requested', 'message-received'],
  );
});

test('the request of a paused turn is withdrawn by its id, without a look at all those that wait', async () => {
  const [session, turn, requestId] = [await newSession(), newId('turn_'), newId('req_')];
  await apply(admission(session, turn));
  const asked = { ...request, requestId };
  const step = { org: 1, session, turn, events: [said('step')], messages: 1 };
  await apply({ ...step, kind: 'pause', used, request: asked, pendingInput: pendingInputOf(asked), webhooks: [] });
  const stop = JSON.stringify([{ kind: 'stop', org: 1, session, reason: 'stop' }]);
  const { rows } = await db.transaction().execute(async (transaction) => {
    await sql`select apply_turn_operations(${stop}::json, 'proc_test', 60000, false)`.execute(transaction);
    return sql<{ scans: number }>`select pg_stat_get_xact_numscans('pending_approvals'::regclass) as scans`.execute(transaction);
  });
  assert.deepEqual(rows, [{ scans: 0 }]);
  const approval = await db.selectFrom('approvals').select('state').where('request_id', '=', requestId).executeTakeFirst();
  assert.deepEqual(approval, { state: 'withdrawn' });
});
