import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { TurnAborted, type TurnYield } from '../../../src/harness/turn-world.ts';
import { foldSession } from '../../../src/session/state.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { nextYield, writeCommitPoint } from '../../../src/turn/commit-points.ts';
import { startApp } from '../../support/app.ts';
import { untilAccepted } from '../../support/turns.ts';

const app = await startApp({ after });
const { database, feed, log, runner, settings } = app.context;

test('a turn ends whose commit point the database will never take', async (t) => {
  const { body } = await app.request('POST', '/v1/sessions', {});
  const setting = (await settings.of(1, body.id)) ?? assert.fail();
  t.mock.method(runner, 'begin', () => {});
  const posted = app.request('POST', `/v1/sessions/${body.id}/messages`, { text: 'hi' });
  await untilAccepted(app, body.id, 1);
  const turn = await database.db.selectFrom('turns').select('id').where('session_id', '=', body.id).executeTakeFirstOrThrow();
  const state = foldSession(await log.read(body.id, 0, 10));
  const ids = { turn: turn.id, session: body.id, org: 1 };
  const call = { callId: 'call_1', tool: 'ba\0sh', input: {}, step: 1 };
  const parts = { log, logger: createLogger('silent') };
  const { point } = await writeCommitPoint(
    parts,
    { type: 'commit', events: [{ type: 'tool-called', data: call }] },
    ids,
    state,
    setting.forTurn(),
  );
  assert.equal(point.type, 'end');
  feed.lookAgain(body.id);
  const answer = await posted;
  assert.deepEqual([answer.status, answer.body.detail.error], [500, 'internal_error']);
});

test('a turn that meets a database that is away, or that is let go of, can go on later; with any other failure it ends', async () => {
  async function* failing(error: Error): AsyncGenerator<TurnYield, void, void> {
    yield* [];
    throw error;
  }
  const ids = { turn: 'turn_1', session: 'ses_1', org: 1 };
  const outcome = (error: Error, signal = new AbortController().signal) =>
    nextYield(createLogger('silent'), failing(error), ids, foldSession([]), signal);
  const away = Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
  await assert.rejects(outcome(away), away);
  const released = new TurnAborted('released');
  await assert.rejects(outcome(new Error('aborted'), AbortSignal.abort(released)), released);
  const codeOf = async (signal?: AbortSignal) => {
    const end = await outcome(new Error('unexpected'), signal);
    const failed = end?.type === 'end' ? end.events.at(-1) : undefined;
    return failed?.type === 'turn-failed' ? failed.data.code : undefined;
  };
  assert.equal(await codeOf(), 'internal_error');
  assert.equal(await codeOf(AbortSignal.abort(new TurnAborted('timeout'))), 'turn_timeout');
});
