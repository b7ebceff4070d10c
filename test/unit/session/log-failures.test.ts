import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { throwUnsent } from '../../../src/database/database.ts';
import { newId } from '../../../src/ids.ts';
import { SessionLog } from '../../../src/session/log.ts';
import type { Operation } from '../../../src/session/operations.ts';
import { startApp } from '../../support/app.ts';
import { admission, said } from '../../support/written-log.ts';

const app = await startApp({ after });
const { database } = app.context;

test('messages that waited long for a statement that fails are refused with it; what running turns write, and newer messages, are not', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const sent: string[][] = [];
  const hanging = Promise.withResolvers<never>();
  const prepared = async <Row>(statement: { name: string; text: string }, values: unknown[]): Promise<Row[]> => {
    sent.push((JSON.parse(String(values[0])) as { session: string }[]).map((operation) => operation.session));
    return sent.length === 1 ? hanging.promise : database.prepared<Row>(statement, values);
  };
  const log = new SessionLog({ ...database, prepared }, 'proc_test', 60_000, false);
  const outcomes = new Map<string, string>();
  const ask = (operation: Operation) =>
    log.apply(operation).then(
      ({ result }) => outcomes.set(operation.session, result.status),
      (error: Error) => outcomes.set(operation.session, error.message),
    );
  const message = (session: string) => ask(admission(session, newId('turn_')));
  const asked = [message('under way')];
  await setImmediate();
  const turn = newId('turn_');
  const commitPoint: Operation = { kind: 'note', org: 1, session: 'old commit point', turn, events: [said('x')], messages: 1 };
  asked.push(message('old message'), ask(commitPoint));
  now = 6_000;
  asked.push(message('new message'));
  now = 10_000;
  hanging.reject(new Error('Query read timeout'));
  await Promise.all(asked);
  assert.deepEqual(sent, [['under way'], ['old commit point', 'new message']]);
  assert.deepEqual(Object.fromEntries(outcomes), {
    'under way': 'Query read timeout',
    'old message': 'Query read timeout',
    'old commit point': 'not-found',
    'new message': 'not-found',
  });
});

test('while the database cannot be reached, what a running turn writes is sent again for as long as its lease lasts, and nothing else', async () => {
  const unreachable = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  let failures = 2;
  const sent: string[][] = [];
  const prepared = async <Row>(statement: { name: string; text: string }, values: unknown[]): Promise<Row[]> => {
    sent.push((JSON.parse(String(values[0])) as { session: string }[]).map((operation) => operation.session));
    failures -= 1;
    if (failures >= 0) throwUnsent(unreachable);
    return database.prepared<Row>(statement, values);
  };
  const log = new SessionLog({ ...database, prepared }, 'proc_test', 600, false);
  const advance = (session: string): Operation => ({
    kind: 'append',
    org: 1,
    session,
    turn: newId('turn_'),
    events: [],
    messages: undefined,
  });
  const written = log.apply(advance('running'));
  await assert.rejects(log.apply(admission('new', newId('turn_'))), unreachable);
  const behind = log.apply(admission('behind', newId('turn_')));
  await assert.rejects(behind, unreachable);
  assert.equal((await written).result.status, 'lost');
  assert.deepEqual(sent, [['running', 'new'], ['running'], ['running']]);
  // Nothing of it can arrive later.
  assert.equal(await log.holderName.current(), 'proc_test');
  assert.deepEqual(log.takeDoubtful(), new Set());
  failures = Number.POSITIVE_INFINITY;
  const begun = performance.now();
  await assert.rejects(log.apply(advance('running')), unreachable);
  assert.ok(performance.now() - begun >= 600);
});

test('an answer is late after a lease has passed by either clock: one of them stands still while the machine is suspended', async (t) => {
  const [startedAt, started] = [Date.now(), performance.now()];
  for (const stopped of [Date, performance]) {
    let passed = 0;
    const clocks = [
      t.mock.method(performance, 'now', () => started + (stopped === performance ? 0 : passed)),
      t.mock.method(Date, 'now', () => startedAt + (stopped === Date ? 0 : passed)),
    ];
    const prepared = async <Row>(statement: { name: string; text: string }, values: unknown[]): Promise<Row[]> => {
      const rows = await database.prepared<Row>(statement, values);
      passed = 5_001;
      return rows;
    };
    const log = new SessionLog({ ...database, prepared }, 'proc_test', 5_000, false);
    assert.equal((await log.apply(admission('none', newId('turn_')))).late, true);
    for (const clock of clocks) clock.mock.restore();
  }
});
