import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { createChatModel } from '../../../src/harness/models/chat-wire.ts';
import { callOf, callsOf, collect, finishOf, neverAborted, textOf } from './provider-cases.ts';

describe('an answer in one piece', () => {
  const message = { role: 'assistant', content: 'Hi', reasoning_content: 'Hm.', tool_calls: [{ id: 'a', function: { name: 'bash' } }] };
  const whole = JSON.stringify({ choices: [{ message, finish_reason: 'tool_calls' }], usage: { prompt_tokens: 3, completion_tokens: 1 } });

  function recordedModel(fetch: typeof globalThis.fetch) {
    const requests: { body: Record<string, unknown>; accept: string | null }[] = [];
    const model = createChatModel('llama', {
      baseUrl: 'http://x',
      apiKey: undefined,
      ask: (url, init) => {
        requests.push({ body: JSON.parse(String(init?.body)), accept: new Headers(init?.headers).get('accept') });
        return fetch(url, init);
      },
    });
    return { model, requests };
  }
  const answering = async () => new Response(whole, { headers: { 'content-type': 'application/json' } });

  test('is asked for where nobody watches, and says what a stream would', async () => {
    const { model, requests } = recordedModel(answering);
    const parts = await collect(model.stream({ ...callOf(), whole: true }, neverAborted));
    assert.deepEqual(
      parts.map((part) => part.type),
      ['reasoning-delta', 'reasoning-end', 'text-delta', 'tool-call', 'finish'],
    );
    assert.deepEqual(finishOf(parts)?.usage, { input: 3, output: 1, cachedInput: 0 });
    assert.deepEqual(
      requests.map(({ body, accept }) => [body.stream, body.stream_options, accept]),
      [[false, undefined, 'application/json']],
    );
  });

  test('is read whatever it is called, and whether or not it says how it ended', async () => {
    const body = JSON.stringify({ choices: [{ delta: {}, message: { content: [{ type: 'text', text: 'Hi' }] }, finish_reason: null }] });
    for (const type of ['text/plain', 'Application/JSON', 'text/json', '']) {
      const { model } = recordedModel(
        async () => new Response(Buffer.from(`\uFEFF${body}`), { headers: type === '' ? {} : { 'content-type': type } }),
      );
      assert.equal(textOf(await collect(model.stream({ ...callOf(), whole: true }, neverAborted))), 'Hi', type);
    }
  });

  test('comes in pieces where a server does nothing but stream', async () => {
    const stream = 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
    const { model } = recordedModel(async () => new Response(stream, { headers: { 'content-type': 'text/event-stream' } }));
    assert.equal(textOf(await collect(model.stream({ ...callOf(), whole: true }, neverAborted))), 'Hi');
  });

  test('takes of its parts only those that are text', async () => {
    const content = [{ type: 'thinking', text: 'Hm.' }, { type: 'text', text: 'Hi' }, { type: 'text' }, null];
    const { model } = recordedModel(async () => new Response(JSON.stringify({ choices: [{ message: { content } }] })));
    assert.equal(textOf(await collect(model.stream({ ...callOf(), whole: true }, neverAborted))), 'Hi');
  });

  test('has each of its calls apart, with ids or without', async () => {
    const tool_calls = ['', undefined, 'a', 'a'].map((id, index) => ({
      id,
      function: { name: `tool${index}`, arguments: `{"n":${index}}` },
    }));
    const answered = JSON.stringify({ choices: [{ message: { content: null, tool_calls }, finish_reason: 'tool_calls' }] });
    const { model } = recordedModel(async () => new Response(answered));
    const parts = await collect(model.stream({ ...callOf(), whole: true }, neverAborted));
    assert.deepEqual(
      callsOf(parts).map(({ tool, input }) => [tool, input]),
      tool_calls.map((_call, index) => [`tool${index}`, { n: index }]),
    );
  });

  test('is what a refusal is said in', async () => {
    const { model } = recordedModel(async () => new Response('{"choices":[{"message":{"content":null,"refusal":"No."}}]}'));
    assert.equal(textOf(await collect(model.stream({ ...callOf(), whole: true }, neverAborted))), 'No.');
  });

  test('is not wanted where the release says how it wants the stream', () => {
    const { model } = recordedModel(answering);
    const wanting = (stream: boolean) => ({ ...callOf(), settings: { provider_options: { stream } } });
    assert.deepEqual(
      [model.answersWhole?.(callOf()), model.answersWhole?.(wanting(true)), model.answersWhole?.(wanting(false))],
      [true, false, false],
    );
  });

  test('is not wanted any more once one took long, or was refused', async (t) => {
    const slow = recordedModel(answering).model;
    const { model: refusing } = recordedModel(async () => new Response('{}', { status: 400 }));
    await assert.rejects(collect(refusing.stream({ ...callOf(), whole: true }, neverAborted)), { code: 'invalid_model_request' });
    assert.equal(refusing.answersWhole?.(callOf()), false);

    await collect(slow.stream({ ...callOf(), whole: true }, neverAborted));
    assert.equal(slow.answersWhole?.(callOf()), true);
    let now = 0;
    t.mock.method(performance, 'now', () => {
      now += 11_000;
      return now;
    });
    await collect(slow.stream({ ...callOf(), whole: true }, neverAborted));
    assert.equal(slow.answersWhole?.(callOf()), false);
  });
});
