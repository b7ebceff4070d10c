import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { said } from '../../support/written-log.ts';

const app = await startApp({ after });
const { log, turns } = app.context;

test('a turn reads of its session what others wrote since the last one here, and not all of it', async (t) => {
  await app.request('POST', '/v1/sessions', { session_id: 'noted' });
  const say = async (text: string) => (await app.request('POST', '/v1/sessions/noted/messages', { text })).body.text;
  for (let turn = 1; turn <= 3; turn += 1) await say('hello');
  const read = t.mock.method(log, 'readPage');
  const readFrom = () => read.mock.calls.splice(0).map((call) => call.arguments[1]);
  assert.match(await say('hello'), /turn 4 /);
  assert.deepEqual(readFrom(), []);
  await turns.note(1, 'noted', [said('by the way')]);
  assert.match(await say('hello'), /turn 5 /);
  assert.deepEqual(readFrom(), [16]);
});
