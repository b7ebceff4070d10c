import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { FoldedEvent } from '../../../src/session/events.ts';
import { foldSession } from '../../../src/session/state.ts';
import { startApp } from '../../support/app.ts';
import { said } from '../../support/written-log.ts';

const app = await startApp({ after });
const { log, turns } = app.context;

test('a turn reads of its session what others wrote since the last one here, and not all of it', async (t) => {
  await app.request('POST', '/v1/sessions', { session_id: 'noted' });
  const say = async (text: string) => (await app.request('POST', '/v1/sessions/noted/messages', { text })).body.text;
  for (let turn = 1; turn <= 3; turn += 1) await say('hello');
  const read = t.mock.method(log, 'readToFold');
  const readFrom = () => read.mock.calls.splice(0).map((call) => call.arguments[1]);
  assert.match(await say('hello'), /turn 4 /);
  assert.deepEqual(readFrom(), []);
  await turns.note(1, 'noted', [said('by the way')]);
  assert.match(await say('hello'), /turn 5 /);
  assert.deepEqual(readFrom(), [16]);
});

test('a state is folded without the beginnings and ends of turns that are over, and is the same', async () => {
  const path = '/v1/sessions/approving';
  await app.request('POST', '/v1/sessions', { session_id: 'approving', permission_mode: 'interactive' });
  const say = async (text: string) => (await app.request('POST', `${path}/messages`, { text })).body;
  const gather = async (pages: AsyncIterable<FoldedEvent[]>) => {
    const events: FoldedEvent[] = [];
    for await (const page of pages) events.push(...page);
    return events;
  };
  const readBoth = async (turnId: string) => {
    const all = await gather(log.readAll('approving'));
    const read = await gather(log.readToFold('approving', 0, turnId));
    return { all, read, whole: foldSession(all), state: foldSession(read), types: read.map(({ type }) => type) };
  };
  const lsOnce = '/tool bash {"command":"ls"}';

  await say('first');
  const { pending_input } = await say(lsOnce);
  await app.request('PUT', `${path}/inputs/${pending_input.request_id}`, { decision: 'approve_session' });
  await say(lsOnce);
  const ended = await readBoth('');
  assert.deepEqual({ ...ended.state, turn: undefined }, { ...ended.whole, turn: undefined });
  assert.equal(ended.state.grants.size, 1);
  assert.deepEqual([ended.types.includes('turn-started'), ended.types.at(-1)], [false, 'turn-ended']);
  assert.equal(ended.types.filter((type) => type === 'turn-ended').length, 1);

  const last = await readBoth(ended.all.at(-1)?.turnId ?? '');
  assert.deepEqual(last.state, last.whole, 'of the turn that is about to run, everything is there');

  await say('/tool files {"operation":"write","path":"a.txt","content":"a"}');
  await turns.note(1, 'approving', [said('by the way')]);
  const paused = await readBoth('');
  assert.deepEqual(paused.state, paused.whole, 'and so it is of a paused turn, which may go on');
  assert.equal(paused.state.turn?.agent, 'main');
});
