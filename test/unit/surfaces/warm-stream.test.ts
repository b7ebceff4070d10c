import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceError } from '../../../src/errors.ts';
import { WarmSessions } from '../../../src/instances/warm-sessions.ts';
import { warmFrames } from '../../../src/surfaces/managed-agents/warm-stream.ts';

const frame = (status: string, more: object = {}) => `event: warm\ndata: ${JSON.stringify({ status, ...more })}\n\n`;

test('the warm stream says warming at once and again after 2 s, and ready at the end', async () => {
  const loaded = Promise.withResolvers<void>();
  const frames = warmFrames(new WarmSessions(() => loaded.promise), 1, 'ses_1', new AbortController().signal);
  const begun = performance.now();
  assert.equal((await frames.next()).value, frame('warming'));
  assert.ok(performance.now() - begun < 1_000);
  assert.equal((await frames.next()).value, frame('warming'));
  const again = performance.now() - begun;
  assert.ok(again > 1_990 && again < 4_000, `${again} ms`);
  const last = frames.next();
  loaded.resolve();
  assert.equal((await last).value, frame('ready'));
  assert.equal((await frames.next()).done, true);
});

test('a session that is not ready after 60 s is an error', async (t) => {
  const clock = t.mock.method(performance, 'now', () => 0);
  const frames = warmFrames(new WarmSessions(() => new Promise(() => {})), 1, 'ses_1', new AbortController().signal);
  await frames.next();
  clock.mock.mockImplementation(() => 60_000);
  assert.equal((await frames.next()).value, frame('error', { message: 'The session did not become ready in 60 s.' }));
  assert.equal((await frames.next()).done, true);
});

test('a failure is told in our own words only, because a browser reads it', async () => {
  const failures: [Error, string][] = [
    [
      new ServiceError('upstream', 'MCP server crm: the server did not answer in time'),
      'MCP server crm: the server did not answer in time',
    ],
    [new Error('connect ECONNREFUSED 10.0.0.5:5432'), 'The session could not be warmed.'],
  ];
  for (const [error, message] of failures) {
    const frames = warmFrames(new WarmSessions(() => Promise.reject(error)), 1, 'ses_1', new AbortController().signal);
    let last: string | undefined;
    for await (const read of frames) last = read;
    assert.equal(last, frame('error', { message }));
  }
});

test('warming ends when the session is stopped meanwhile', async () => {
  const warm = new WarmSessions(
    (_orgId, _sessionId, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  );
  const { done } = warm.begin(1, 'ses_1');
  warm.forget('ses_1');
  await done;
  assert.equal(warm.of('ses_1'), undefined);
});
