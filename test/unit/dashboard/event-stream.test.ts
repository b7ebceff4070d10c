// How often a page asks for a session's log where that is refused. On the test's own clock.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';

Object.assign(globalThis, { localStorage: { getItem: () => null } });
// By its address, since the types of what it needs are a browser's.
const source = new URL('../../../dashboard/src/conversation/event-stream.ts', import.meta.url).href;
const { EventStream }: { EventStream: new (url: string) => { close(): void } } = await import(source);

/** Seconds after its opening at which the log was asked for, in the first minute of this answer. */
async function asked(t: TestContext, answer: () => Response): Promise<number[]> {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const times: number[] = [];
  let now = 0;
  t.mock.method(globalThis, 'fetch', async (url: string) => {
    if (url === '/readyz') return new Response('{}');
    times.push(now / 1000);
    return answer();
  });
  const stream = new EventStream('/log');
  for (; now < 60_000; now += 100) {
    for (let task = 0; task < 20; task += 1) await Promise.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(100);
  }
  stream.close();
  return times;
}

test('a log that is refused for a while is asked for less and less often', async (t) => {
  for (const status of [429, 502, 503, 504]) {
    const times = await asked(t, () => new Response('<html>', { status }));
    t.mock.reset();
    t.mock.timers.reset();
    assert.ok(times.length > 5 && times.length < 14, `${status}: ${times.join(' ')}`);
    assert.ok((times[1] ?? 9) < 1, `${status}: ${times.join(' ')}`);
  }
});

test('so is one that ends as soon as it began', async (t) => {
  const times = await asked(t, () => new Response(''));
  assert.ok(times.length > 5 && times.length < 14, times.join(' '));
});

test('whoever says how long to wait is asked again after that', async (t) => {
  const times = await asked(t, () => new Response('{"detail":"Too Many Requests"}', { status: 429, headers: { 'retry-after': '20' } }));
  assert.deepEqual(times.map(Math.round), [0, 20, 40]);
});
