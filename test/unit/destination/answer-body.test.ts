// Own process: the clock that it stops leaves answers of this process waiting for good.
import assert from 'node:assert/strict';
import { type MockTracker, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { AnswerBody } from '../../../src/destination/answer-body.ts';

test('an answer goes on whose reader catches up just as what was gathered is being read', async ({ mock }) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const request = connection();
  const body = new AnswerBody(request, () => {});
  const reader = body.getReader();
  await fill(body, mock);
  assert(request.paused, 'four pieces are as many as wait unread');
  mock.timers.tick(50);
  for (let piece = 0; piece < 4; piece += 1) await reader.read();
  const next = reader.read();
  await setImmediate();
  assert(!request.paused, 'nobody else would ask for the rest');
  body.add(Buffer.from('end'));
  assert.equal(Buffer.from((await next).value ?? []).toString(), 'end');
  body.end();
});

test('the first piece is handed on at once, and what follows it is gathered from there on where several answers are open', async () => {
  const begin = () => {
    const request = connection();
    const body = new AnswerBody(request, () => {});
    return { request, body, reader: body.getReader() };
  };
  const answers = [begin()];
  const [alone] = answers;
  assert(alone);
  alone.body.add(Buffer.from('word '));
  assert.equal(Buffer.from((await alone.reader.read()).value ?? []).toString(), 'word ');
  assert(!alone.request.paused);

  while (answers.length < 4) answers.push(begin());
  const fourth = answers[3];
  assert(fourth);
  fourth.body.add(Buffer.from('word '));
  assert.equal(Buffer.from((await fourth.reader.read()).value ?? []).toString(), 'word ');
  assert(fourth.request.paused);
  for (const { body } of answers) body.end();
});

test('what was gathered before a connection broke is handed on before the failure', async ({ mock }) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const body = new AnswerBody(connection(), () => {});
  const reader = body.getReader();
  const read = async () => Buffer.from((await reader.read()).value ?? []).toString();
  for (const word of ['one ', 'two ']) {
    body.add(Buffer.from(word));
    assert.equal(await read(), word);
  }
  const last = read();
  body.add(Buffer.from('three'));
  const failure = new Error('the connection broke');
  body.fail(failure);
  assert.equal(await last, 'three');
  await assert.rejects(read, failure);
});

test('an answer that ends while its reader asks for more is read to its end', async ({ mock }) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  // As undici does, it hands on what it kept while it was paused before `resume` returns.
  let kept = () => {};
  const body = new AnswerBody(
    connection(() => kept()),
    () => {},
  );
  const reader = body.getReader();
  await fill(body, mock);
  body.add(Buffer.alloc(8 * 1024));
  mock.timers.tick(50);
  for (let piece = 0; piece < 4; piece += 1) await reader.read();
  const bulk = reader.read();
  await setImmediate();
  assert.equal((await bulk).value?.length, 8 * 1024);
  kept = () => {
    body.add(Buffer.from('the end'));
    body.end();
  };
  assert.equal(Buffer.from((await reader.read()).value ?? []).toString(), 'the end');
  assert((await reader.read()).done);
});

/** Hands on as many pieces as wait unread; the connection rests for a moment after the last one. */
async function fill(body: AnswerBody, mock: MockTracker): Promise<void> {
  for (let piece = 0; piece < 4; piece += 1) {
    if (piece > 0) {
      mock.timers.tick(50);
      await setImmediate();
    }
    body.add(Buffer.from('word '));
    await Promise.resolve();
  }
}

/** A request whose connection can be told to rest. */
function connection(onResume = () => {}): Dispatcher.DispatchController {
  let isPaused = false;
  return {
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
      if (!isPaused) return;
      isPaused = false;
      onResume();
    },
  };
}
