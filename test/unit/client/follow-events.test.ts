// How soon a log is followed again after its connection ended.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ParleyClient } from '../../../client/src/index.ts';

/** The waits before each of the attempts, if every connection is open for this long, is kept alive, and brings no event. */
async function waitsBetween(connections: number, openMs: number): Promise<number[]> {
  const waits: number[] = [];
  let endedAt: number | undefined;
  const fetch = async () => {
    if (endedAt !== undefined) waits.push(Date.now() - endedAt);
    return new Response(
      new ReadableStream({
        start(stream) {
          const alive = setInterval(() => stream.enqueue(new TextEncoder().encode(':\n\n')), 15_000);
          setTimeout(() => {
            clearInterval(alive);
            endedAt = Date.now();
            stream.close();
          }, openMs);
        },
      }),
    );
  };
  mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'] });
  try {
    const leaving = new AbortController();
    const { managed } = new ParleyClient({ baseUrl: 'http://127.0.0.1', apiKey: 'a', agent: 'demo/assistant', fetch });
    const following = managed.events('ses_1', { signal: leaving.signal }).next();
    while (waits.length < connections) {
      mock.timers.tick(50);
      await setImmediate();
    }
    leaving.abort(new Error('enough'));
    mock.timers.tick(openMs);
    await assert.rejects(following, { message: 'enough' });
  } finally {
    mock.timers.reset();
  }
  return waits;
}

test('a connection that a proxy ends after a minute without an event is opened again at once, each time', async () => {
  const waits = await waitsBetween(6, 60_000);
  assert.ok(Math.max(...waits) <= 300, waits.join());
});

test('connections that end at once are opened less and less often', async () => {
  const waits = await waitsBetween(6, 50);
  assert.ok((waits[5] ?? 0) >= 4_000, waits.join());
});
