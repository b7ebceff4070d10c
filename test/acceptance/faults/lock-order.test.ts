// What a process holds while it waits for another.
// One engine: on the embedded database nobody waits for anybody.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { CompiledQuery, sql } from 'kysely';
import type { Db } from '../../../src/database/database.ts';
import { locks } from '../../../src/database/locks.ts';
import { dropSession } from '../../../src/session/drop-sessions.ts';
import type { NewEvent } from '../../../src/session/events.ts';
import { SessionLog } from '../../../src/session/log.ts';
import { NewSessions } from '../../../src/session/new-sessions.ts';
import type { Operation } from '../../../src/session/operations.ts';
import { findSession } from '../../../src/session/sessions.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

const options = { skip: engine === 'pglite' };
const app = await startApp({ after });
const { database, log, runner } = app.context;
const { db } = database;
const shared = { instance: { scope: 'shared' }, activate: true };
assert.equal((await app.request('POST', '/api/agents/assistant/releases', shared)).status, 201);

const isWaitedFor = async () => (await sql`select 1 from pg_locks where not granted`.execute(db)).rows.length > 0;

/** Another process: what it does is done at once, or fails. */
function elsewhere<Result>(work: (transaction: Db) => Promise<Result>): Promise<Result> {
  return db.transaction().execute(async (transaction) => {
    await sql`set local lock_timeout = '500ms'`.execute(transaction);
    return work(transaction);
  });
}

async function open(id: string) {
  await app.request('POST', '/v1/sessions', { session_id: id });
  const session = await findSession(db, 1, id);
  if (session === undefined) throw new Error(`there is no session ${id}`);
  return session;
}

test('turns whose files another process is writing in another order hold none of them', options, async () => {
  for (const id of ['first', 'second']) {
    await open(id);
    const event = { type: 'user.message', text: '/delay 60000\n/words 2' };
    await app.request('POST', `/demo/assistant/v1/managed-agents/sessions/${id}/events`, event);
  }
  const write = async (session: string, path: string) => {
    const turn = runner.turnOf(session) ?? '';
    const files = [{ path, content: 'eA==', size: 1 }];
    const { result } = await log.apply({ kind: 'append', org: 1, session, turn, events: [], messages: undefined, files });
    return result.status;
  };
  const both = () => Promise.all([write('first', 'b'), write('second', 'a')]);
  assert.deepEqual(await both(), ['done', 'done']);
  const touch = (transaction: Db, path: string) =>
    transaction.updateTable('workspace_files').set({ updated_at: new Date() }).where('path', '=', path).execute();
  const { writing } = await elsewhere(async (transaction) => {
    // Whoever writes files locks this first.
    await sql`select 1 from budgets where org_id = 1 for update`.execute(transaction);
    await touch(transaction, 'a');
    const begun = both();
    await until(isWaitedFor);
    await touch(transaction, 'b');
    return { writing: begun };
  });
  assert.deepEqual(await writing, ['done', 'done']);
  for (const id of ['first', 'second']) await app.request('DELETE', `/demo/assistant/v1/sessions/${id}`);
});

test('sessions whose ids another process is taking in another order hold none of them', options, async () => {
  const { id: _id, ...like } = await open('like');
  const newSessions = new NewSessions(database);
  const take = (transaction: Db, id: string) =>
    sql`insert into sessions (id, org_id, agent_id, release_version, surface, instance_key, current_agent)
      select ${id}, org_id, agent_id, release_version, surface, instance_key, current_agent from sessions where id = 'like'
      on conflict do nothing`.execute(transaction);
  const { opening } = await elsewhere(async (transaction) => {
    await take(transaction, 'taken-1');
    const begun = Promise.all(['taken-2', 'taken-1'].map((id) => newSessions.insert({ ...like, id })));
    await until(isWaitedFor);
    await take(transaction, 'taken-2');
    return { opening: begun };
  });
  assert.deepEqual(await opening, [undefined, undefined]);
});

test('an upload that waits for another holds nothing that a turn needs', options, async () => {
  const { id, orgId, agentId, instanceKey } = await open('uploads');
  const path = `/demo/assistant/v1/managed-agents/sessions/${id}/files`;
  const upload = (content: string) => app.request('POST', path, { name: 'a', content_base64: Buffer.from(content).toString('base64') });
  await upload('one');
  const { uploading } = await elsewhere(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${locks.workspace}, hashtext(${`${orgId} ${agentId} ${instanceKey}`}))`.execute(transaction);
    const begun = upload('another');
    await until(isWaitedFor);
    await sql`select 1 from sessions where id = ${id} for update nowait`.execute(transaction);
    await sql`select 1 from workspace_files where path = 'uploads/a' for update nowait`.execute(transaction);
    return { uploading: begun };
  });
  assert.equal((await uploading).status, 200);
  const { rows } = await sql<{ path: string; size: number }>`
    select path, size from workspace_files where path not in ('a', 'b')`.execute(db);
  assert.deepEqual(rows, [{ path: 'uploads/a', size: 7 }]);
});

test('uploads that wait for another process leave connections to everybody else', options, async () => {
  const { id, orgId, agentId, instanceKey } = await open('many-uploads');
  const path = `/demo/assistant/v1/managed-agents/sessions/${id}/files`;
  const upload = (name: string) => app.request('POST', path, { name, content_base64: 'eA==' });
  await open('beside-uploads');
  const { uploading, answered } = await elsewhere(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${locks.workspace}, hashtext(${`${orgId} ${agentId} ${instanceKey}`}))`.execute(transaction);
    const begun = Promise.all(Array.from({ length: 12 }, (_, index) => upload(`many-${index}`)));
    await until(isWaitedFor);
    const turn = app.request('POST', '/v1/sessions/beside-uploads/messages', { text: 'hi' });
    const answers = await Promise.all([turn, app.request('GET', `/v1/sessions/${id}`)]);
    return { uploading: begun, answered: answers.map(({ status }) => status) };
  });
  assert.deepEqual(answered, [200, 200]);
  assert.ok((await uploading).every(({ status }) => status === 200));
});

test('what turns write needs none of the connections that others may hold', options, async () => {
  await open('beside-reads');
  const held = Promise.withResolvers<void>();
  const holding = Array.from({ length: app.context.config.PARLEY_DATABASE_POOL }, () =>
    db.transaction().execute(async (transaction) => {
      await sql`select 1`.execute(transaction);
      await held.promise;
    }),
  );
  await until(async () => database.pool().open - database.pool().idle >= holding.length);
  const operation: Operation = { kind: 'append', org: 1, session: 'beside-reads', turn: 'turn_none', events: [], messages: undefined };
  const written = await Promise.race([log.apply(operation), setTimeout(2_000, undefined, { ref: false })]);
  held.resolve();
  await Promise.all(holding);
  assert.equal(written?.result.status, 'lost');
});

test('a session that is dropped while another process counts files holds none of its own', options, async () => {
  const { id, agentId } = await open('dropped');
  await sql`insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
    values (1, ${agentId}, ${`session:${id}`}, 'own', 'x', 1)`.execute(db);
  const { dropping } = await elsewhere(async (transaction) => {
    await sql`select 1 from budgets where org_id = 1 for update`.execute(transaction);
    const begun = dropSession(db, 1, id);
    await until(isWaitedFor);
    await sql`select 1 from workspace_files where path = 'own' for update nowait`.execute(transaction);
    return { dropping: begun };
  });
  assert.equal(await dropping, true);
  assert.deepEqual((await sql`select 1 from workspace_files where path = 'own'`.execute(db)).rows, []);
});

test('the operator, while a turn holds the budget, holds nothing that the deletion of the default agent needs', options, async () => {
  const { patching } = await elsewhere(async (transaction) => {
    // A turn that is about to pause: it waits next for its agent, which the deletion holds while it waits for the organization.
    await sql`select 1 from budgets where org_id = 1 for update`.execute(transaction);
    const begun = app.call('PATCH', '/operator/organizations/demo', { key: app.operatorKey, body: { total_tokens_cap: null } });
    await until(isWaitedFor);
    await sql`select 1 from organizations where id = 1 for no key update nowait`.execute(transaction);
    return { patching: begun };
  });
  assert.equal((await patching).status, 200);
});

test('a turn that pauses waits for no session that is being opened', options, async () => {
  const { id, agentId } = await open('pausing');
  const { body } = await elsewhere(async (transaction) => {
    // Whoever opens a session counts it for its agent.
    await sql`update agents set session_count = session_count where id = ${agentId}`.execute(transaction);
    return app.request('POST', `/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"ls"}' });
  });
  assert.equal(body.pending_input.tool, 'bash');
  await app.request('DELETE', `/demo/assistant/v1/sessions/${id}`);
});

test('an agent is deleted only after a turn of it that is about to pause, whose question is then found', options, async () => {
  const { body } = await app.request('POST', '/api/agents', { slug: 'short-lived' });
  const { deleting } = await elsewhere(async (transaction) => {
    await sql`select 1 from agents where id = ${body.agent.id} for key share`.execute(transaction);
    const begun = app.request('DELETE', '/api/agents/short-lived');
    await until(isWaitedFor);
    return { deleting: begun };
  });
  assert.equal((await deleting).status, 204);
});

test('a session that is dropped after a turn is kept if another turn begins and ends before it can be locked', options, async () => {
  const { id } = await open('overtaken');
  await app.request('POST', `/v1/sessions/${id}/messages`, { text: 'one' });
  const lastSeq = (await findSession(db, 1, id))?.lastSeq ?? 0;
  const { dropping } = await elsewhere(async (transaction) => {
    await sql`select 1 from sessions where id = ${id} for update`.execute(transaction);
    const begun = dropSession(db, 1, id, lastSeq);
    await until(isWaitedFor);
    await runTurn(transaction, id);
    return { dropping: begun };
  });
  assert.equal(await dropping, false);
  assert.equal((await findSession(db, 1, id))?.lastSeq, lastSeq + 3);
});

/** A turn of another process, from its beginning to its end. */
async function runTurn(transaction: Db, session: string): Promise<void> {
  const prepared = async <Row>({ text }: { text: string }, values: unknown[]) =>
    (await transaction.executeQuery<Row>(CompiledQuery.raw(text, values))).rows;
  const other = new SessionLog({ ...database, prepared }, 'proc_other', 60_000, false);
  const turn = { org: 1, session, turn: 'turn_other' };
  const none = { input: 0, output: 0, cachedInput: 0 };
  const admission = { fingerprint: undefined, idempotencyKey: undefined, idempotencyFingerprint: undefined, waitsForApproval: false };
  const reservation = { reserveTokens: 0, reserveMicros: 0, reserveCreditMicros: 0 };
  const input = { messageId: 'msg_other', text: 'two' };
  await other.apply({ ...turn, kind: 'admit', input, endUserId: undefined, ...admission, ...reservation });
  const ended: NewEvent = { type: 'turn-ended', data: { stopReason: 'end_turn', step: 1, usage: none, stepUsage: none } };
  const { result } = await other.apply({ ...turn, kind: 'end', events: [ended], messages: undefined, used: [] });
  assert.equal(result.status, 'done');
}
