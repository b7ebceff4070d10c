// For how long a turn is followed when the network ends its connections again and again.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ConnectionError, ParleyClient } from '../../../client/src/index.ts';

const step = (number: number) => ({ type: 'step_start', session_id: 'ses_1', data: { step: number, agent: 'main' } });
const done = { type: 'done', data: { usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } } };

/** What the caller gets of a turn, if each connection brings these events and is cut after `openMs`. */
async function eventsOf(openMs: number, bring: (connection: number) => unknown[]): Promise<string[]> {
  let connections = 0;
  const fetch = async () => {
    connections += 1;
    const frames = bring(connections).map((event) => `data: ${JSON.stringify(event)}\n\n`);
    let cut: NodeJS.Timeout;
    return new Response(
      new ReadableStream({
        start(stream) {
          stream.enqueue(new TextEncoder().encode(frames.join('')));
          cut = setTimeout(() => stream.close(), openMs);
        },
        cancel: () => clearTimeout(cut),
      }),
    );
  };
  const { messages } = new ParleyClient({ baseUrl: 'http://127.0.0.1', apiKey: 'a', fetch });
  const follow = async () => {
    const types: string[] = [];
    for await (const { type } of messages.stream('ses_1', 'hi')) types.push(type);
    return types;
  };
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  try {
    let hasEnded = false;
    const following = follow().finally(() => {
      hasEnded = true;
    });
    // Its failure is for the test to see, and comes while this still waits.
    following.catch(() => {});
    while (!hasEnded) {
      mock.timers.tick(50);
      await setImmediate();
    }
    return await following;
  } finally {
    mock.timers.reset();
  }
}

test('a turn whose connection is cut each minute is followed to its end, also through a tool that is silent for longer', async () => {
  assert.deepEqual(await eventsOf(60_000, (connection) => (connection < 20 ? [step(1)] : [step(1), done])), ['step_start', 'done']);
});

test('a turn whose connections are cut at once is followed for as long as each brings something new', async () => {
  const steps = (count: number) => Array.from({ length: count }, (_, index) => step(index + 1));
  const types = await eventsOf(50, (connection) => (connection < 20 ? steps(connection) : [...steps(19), done]));
  assert.deepEqual(types, [...Array<string>(19).fill('step_start'), 'done']);
});

test('a turn whose connections are cut at once and bring nothing new is given up', async () => {
  let connections = 0;
  const cut = (connection: number) => {
    connections = connection;
    return [step(1)];
  };
  await assert.rejects(eventsOf(50, cut), ConnectionError);
  assert.equal(connections, 9);
});
