import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startApp } from '../../support/app.ts';
import { untilAccepted } from '../../support/turns.ts';
import { until } from '../../support/until.ts';

test('a process that lets go of a turn as it ends does not go on with the message behind it', { timeout: 20_000 }, async (t) => {
  const app = await startApp(t);
  const { context } = app;
  const { log, runner } = context;
  await app.request('POST', '/v1/sessions', { session_id: 'released' });
  const say = (text: string) => app.request('POST', '/v1/sessions/released/messages', { text });
  const ending = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const apply = log.apply.bind(log);
  t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
    if (operation.kind === 'end') {
      ending.resolve();
      await goOn.promise;
    }
    return apply(operation);
  });
  const first = say('/say first');
  await ending.promise;
  const second = say('/delay 60000\n/words 2');
  await untilAccepted(app, 'released', 2);
  const released = runner.release();
  goOn.resolve();
  assert.equal((await first).body.text, 'first');
  await released;
  assert.equal(runner.running.size, 0);
  context.feed.close();
  assert.equal((await second).status, 503);
});

test('a process that lets go of its turns does not go on with what it is still asking about: the message behind a turn, or one just admitted', {
  timeout: 20_000,
}, async (t) => {
  for (const inQueue of [true, false]) {
    const app = await startApp(t);
    const { feed, runner } = app.context;
    await app.request('POST', '/v1/sessions', { session_id: 'asking' });
    const say = (text: string) => app.request('POST', '/v1/sessions/asking/messages', { text });
    const first = inQueue ? say('/delay 200\n/words 4') : undefined;
    // It has begun, and so asks no more.
    await until(async () => runner.running.size === (inQueue ? 1 : 0));
    const asking = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    // As after an answer of the database that came late.
    t.mock.method(runner, 'mayAct', async () => {
      asking.resolve();
      await goOn.promise;
      return true;
    });
    const second = say('/delay 60000\n/words 2');
    await asking.promise;
    const released = runner.release();
    goOn.resolve();
    await Promise.all([released, first]);
    feed.close();
    assert.equal((await second).status, 503);
    assert.equal(runner.running.size, 0);
  }
});

test('a message or an answer to an approval that is being written when the stop begins is waited for: its turn runs here, and no call is left unknown', {
  timeout: 20_000,
}, async (t) => {
  for (const kind of ['admit', 'resolve']) {
    const app = await startApp(t);
    const { context } = app;
    const { log } = context;
    const permission_mode = kind === 'admit' ? 'autonomous' : 'interactive';
    const { id } = (await app.request('POST', '/v1/sessions', { permission_mode })).body;
    const writing = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const apply = log.apply.bind(log);
    t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
      if (operation.kind === kind) {
        writing.resolve();
        await goOn.promise;
      }
      return apply(operation);
    });
    const asked = app.request('POST', `/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"echo ran"}' });
    const path = async () => `/v1/sessions/${id}/inputs/${(await asked).body.pending_input.request_id}`;
    const answer = kind === 'admit' ? asked : app.request('PUT', await path(), { decision: 'approve_once' });
    await writing.promise;
    const drained = context.drain(new Promise(() => {}));
    // More than enough for a drain that does not wait.
    await sleep(100);
    goOn.resolve();
    await drained;
    context.feed.close();
    const { status, text } = await answer;
    assert.deepEqual([status, text.includes('bash answered: ran')], [200, true], text);
  }
});

test('a session that is being stopped while its turn waits for an approval is waited for too: the turn ends here, and not by recovery', {
  timeout: 20_000,
}, async (t) => {
  const app = await startApp(t);
  const { context } = app;
  const { log, database } = context;
  const { id } = (await app.request('POST', '/demo/assistant/v1/sessions', {})).body;
  const asked = await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"ls"}' });
  assert.equal(asked.body.pending_input?.tool, 'bash', asked.text);
  const writing = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const apply = log.apply.bind(log);
  t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
    if (operation.kind === 'stop') {
      writing.resolve();
      await goOn.promise;
    }
    return apply(operation);
  });
  const stopped = app.request('DELETE', `/demo/assistant/v1/sessions/${id}`);
  await writing.promise;
  const drained = context.drain(new Promise(() => {}));
  // More than enough for a drain that does not wait.
  await sleep(100);
  goOn.resolve();
  assert.equal((await stopped).status, 204);
  await drained;
  const turns = await database.db.selectFrom('turns').select('state').where('session_id', '=', id).execute();
  assert.deepEqual(turns, [{ state: 'ended' }]);
});
