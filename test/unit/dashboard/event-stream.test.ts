// How often a page asks for a session's log where that is refused, on the test's own clock; and how often it shows what comes.
import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { until } from '../../support/until.ts';

Object.assign(globalThis, { localStorage: { getItem: () => null }, document: new EventTarget() });
after(async () => {
  // What was closed at the end of a test still takes its listeners off.
  await setImmediate();
  Reflect.deleteProperty(globalThis, 'document');
});
// By its address, since the types of what it needs are a browser's.
const source = new URL('../../../dashboard/src/conversation/event-stream.ts', import.meta.url).href;
interface Stream {
  state: { phase: string; events: readonly unknown[]; problem: Error | undefined };
  subscribe(listener: () => void): () => void;
  close(): void;
}
const { EventStream }: { EventStream: new (url: string) => Stream } = await import(source);

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
    await setImmediate();
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

test('a log whose stream ends as soon as it began is asked for less and less often too', async (t) => {
  const times = await asked(t, () => new Response(''));
  assert.ok(times.length > 5 && times.length < 14, times.join(' '));
});

test('whoever says how long to wait is asked again after that', async (t) => {
  const times = await asked(t, () => new Response('{"detail":"Too Many Requests"}', { status: 429, headers: { 'retry-after': '20' } }));
  assert.deepEqual(times.map(Math.round), [0, 20, 40]);
});

test('a log that this person may not read is asked for now and then, one that does not exist only once', async (t) => {
  for (const [status, isAskedAgain] of [
    [403, true],
    [404, false],
  ] as const) {
    const times = await asked(t, () => Response.json({ detail: 'No.' }, { status }));
    t.mock.reset();
    t.mock.timers.reset();
    assert.equal(times.length > 5 && times.length < 14, isAskedAgain, `${status}: ${times.join(' ')}`);
  }
});

test('a log that is refused for a while keeps what was read, and says why until it is read again; where the server is away, the banner does', async (t) => {
  const event = { seq: 1, type: 'user.interrupt', created_at: '2026-01-31T00:00:00Z' };
  const waiting: ((response: Response) => void)[] = [];
  let isReady = true;
  t.mock.method(globalThis, 'fetch', async (url: string) => {
    if (url === '/readyz') return new Response('{}', { status: isReady ? 200 : 503 });
    return new Promise<Response>((resolve) => waiting.push(resolve));
  });
  const stream = new EventStream('/log');
  const answer = async (response: Response) => {
    await until(async () => waiting.length > 0);
    waiting.shift()?.(response);
    await until(async () => waiting.length > 0);
    return [stream.state.phase, stream.state.events.length, stream.state.problem?.message];
  };
  const refusal = (status: number) => Response.json({ detail: 'Not now.' }, { status, headers: { 'retry-after': '0.05' } });
  assert.deepEqual(await answer(refusal(429)), ['lost', 0, 'Not now.']);
  assert.deepEqual(await answer(new Response(`data: ${JSON.stringify(event)}\n\n`)), ['lost', 1, undefined]);
  for (const status of [429, 500, 503]) assert.deepEqual(await answer(refusal(status)), ['lost', 1, 'Not now.']);
  isReady = false;
  setTimeout(() => {
    isReady = true;
  }, 300);
  assert.deepEqual(await answer(refusal(503)), ['lost', 1, undefined]);
  stream.close();
  waiting.shift()?.(refusal(429));
});

test('an answer that takes long to draw is drawn less often: the page has most of the time for other things', async (t) => {
  let isOver = false;
  const ended = Promise.withResolvers<void>();
  const words = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      if (isOver) {
        controller.close();
        ended.resolve();
      } else controller.enqueue(new TextEncoder().encode('data: {"type":"agent.message_delta","message_id":"msg_1","text":"word "}\n\n'));
    },
  });
  t.mock.method(globalThis, 'fetch', async () => new Response(words));
  const stream = new EventStream('/log');
  let drawn = 0;
  stream.subscribe(() => {
    drawn += 1;
    for (const begun = performance.now(); performance.now() - begun < 20; );
  });
  const begun = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const elapsed = performance.now() - begun;
  isOver = true;
  stream.close();
  await ended.promise;
  assert.ok(drawn > 3 && (drawn * 20) / elapsed < 0.4, `${drawn} times in ${elapsed} ms`);
});
