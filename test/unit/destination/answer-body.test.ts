import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { AnswerBody } from '../../../src/destination/answer-body.ts';

test('an answer goes on whose reader catches up just as what was gathered is being read', async ({ mock }) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let isPaused = false;
  const request: Dispatcher.DispatchController = {
    aborted: false,
    get paused() {
      return isPaused;
    },
    reason: null,
    rawHeaders: null,
    rawTrailers: null,
    abort() {},
    pause() {
      isPaused = true;
    },
    resume() {
      isPaused = false;
    },
  };
  const body = new AnswerBody(request, () => {});
  const reader = body.stream.getReader();
  for (let piece = 0; piece < 4; piece += 1) {
    body.add(Buffer.from('word '));
    await Promise.resolve();
    if (piece === 3) break;
    mock.timers.tick(50);
    await setImmediate();
  }
  assert(isPaused, 'four pieces are as many as wait unread');
  mock.timers.tick(50);
  for (let piece = 0; piece < 4; piece += 1) await reader.read();
  const next = reader.read();
  await setImmediate();
  assert(!isPaused, 'nobody else would ask for the rest');
  body.add(Buffer.from('end'));
  assert.equal(Buffer.from((await next).value ?? []).toString(), 'end');
});
