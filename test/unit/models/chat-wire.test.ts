import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import type { ModelPart } from '../../../src/harness/model.ts';
import { createChatModel } from '../../../src/harness/models/chat-wire.ts';
import { providerFixture } from '../../support/provider-server.ts';
import { answer, delta, done, modelAnswering } from './chat-cases.ts';
import { callOf, collect, finishOf, neverAborted, reasoningOf, textOf } from './provider-cases.ts';

/** Text that came in pieces, as if it had come whole: only the sum of the pieces is promised. */
function joined(parts: ModelPart[]): ModelPart[] {
  const whole: ModelPart[] = [];
  for (const part of parts) {
    const last = whole.at(-1);
    if (part.type !== 'text-delta' && part.type !== 'reasoning-delta') whole.push(part);
    else if (last?.type === part.type) last.text += part.text;
    else whole.push({ type: part.type, text: part.text });
  }
  return whole;
}

describe('the chat-completions stream is read the same', () => {
  for (const fixture of ['chat-text', 'chat-reasoning-tools']) {
    test(`wherever ${fixture} is cut in two`, async () => {
      const bytes = Buffer.from(providerFixture(fixture));
      const whole = joined(await answer(bytes));
      for (let cut = 1; cut < bytes.length; cut += 1) {
        assert.deepEqual(joined(await answer(bytes.subarray(0, cut), bytes.subarray(cut))), whole, `cut at ${cut}`);
      }
    });
  }

  test('with other line ends, comments, a byte order mark and event names', async () => {
    const expected = await answer(providerFixture('chat-text'));
    const text = providerFixture('chat-text');
    assert.deepEqual(await answer(text.replaceAll('\n', '\r\n')), expected);
    assert.deepEqual(await answer(text.replaceAll('\n', '\r')), expected);
    assert.deepEqual(await answer(`\uFEFF: hello\n\n${text.replaceAll('data: ', 'event: message\nid: 7\ndata:')}`), expected);
  });

  test('without an empty line at the end', async () => {
    const parts = await answer(delta({ content: 'Hi' }), delta({}, 'stop').trimEnd());
    assert.equal(textOf(parts), 'Hi');
  });

  test('with an event of two data lines', async () => {
    assert.equal(textOf(await answer('data: {"choices":[{"delta":\ndata: {"content":"Hi"}}]}\n\n', done)), 'Hi');
  });
});

test('words that come in one packet go on in one piece, each packet in its own', async () => {
  const parts = await answer(delta({ content: 'One ' }) + delta({ content: 'two ' }), delta({ content: 'three' }, 'stop') + done);
  assert.deepEqual(
    parts.filter(({ type }) => type === 'text-delta'),
    [
      { type: 'text-delta', text: 'One two ' },
      { type: 'text-delta', text: 'three', isLast: true },
    ],
  );
});

test('chunks that look alike are still read for what they say', async () => {
  const odd = ['plain ', 'again ', 'a "quote" ', 'a \\ and a\nline ', '\u0001', 'Grüße 👋 ', '","role":"x', 'end'];
  const chunks = odd.map((content) => delta({ content }));
  const later = [delta({ content: '', reasoning_content: 'hm' }), delta({ content: 'last' }, 'length'), done];
  const parts = await answer(...chunks, ...later);
  assert.equal(textOf(parts), `${odd.join('')}last`);
  assert.equal(reasoningOf(parts), 'hm');
  assert.ok(finishOf(parts));

  const noted = (note: string) => `data: {"note":{"content":"${note}"},"choices":[{"delta":{"content":"said"}}]}\n\n`;
  assert.equal(textOf(await answer(noted('said'), noted('other'), done)), 'saidsaid');
  const both = (content: string) => delta({ content, refusal: null, reasoning: 'hm' });
  assert.equal(reasoningOf(await answer(both('a'), both('b'), done)), 'hmhm');
  const blank = await answer(delta({ content: 'a' }), delta({ content: '' }), delta({ content: 'b' }), done);
  assert.deepEqual(
    blank.flatMap((part) => (part.type === 'text-delta' ? [part.text] : [])),
    ['a', 'b'],
  );
});

describe('a chat-completions server may', () => {
  test('end with a finish reason and no [DONE]', async () => {
    assert.ok(finishOf(await answer(delta({ content: 'Hi' }, 'length'))));
  });

  test('end with [DONE] and no finish reason', async () => {
    assert.ok(finishOf(await answer(delta({ content: 'Hi' }), done)));
  });

  test('write no finish reason as a text: the answer goes on', async () => {
    for (const none of ['', 'null']) {
      await assert.rejects(answer(delta({ content: 'Hi' }, none)), { code: 'broken_stream' }, `"${none}" is no end`);
      const parts = await answer(delta({ content: 'Hi' }, none), delta({ content: ' there' }, none), delta({}, 'stop'));
      assert.equal(textOf(parts), 'Hi there');
    }
  });

  test('fail in the middle, with the reason or without', async () => {
    const failing = async (error?: object) => {
      const parts: ModelPart[] = [];
      const choice = { index: 0, delta: { content: ' there' }, finish_reason: 'error', error };
      const model = modelAnswering([delta({ content: 'Hi' }), `data: ${JSON.stringify({ choices: [choice] })}\n\n`, done]);
      const failure = await (async () => {
        for await (const part of model.stream(callOf(), neverAborted)) parts.push(part);
      })().catch((thrown: Error) => thrown.message);
      return [failure, textOf(parts)];
    };
    assert.deepEqual(await failing({ code: 502, message: 'Provider disconnected' }), [
      'openai-compatible failed (502): Provider disconnected',
      'Hi there',
    ]);
    assert.deepEqual(await failing(), ['openai-compatible failed: no reason given', 'Hi there']);
  });

  test('say in every chunk that there is no error', async () => {
    const chunk = (fields: object) => `data: ${JSON.stringify({ error: null, choices: [{ delta: fields }] })}\n\n`;
    assert.equal(textOf(await answer(chunk({ content: 'Hi' }), chunk({ content: ' there' }), done)), 'Hi there');
  });

  for (const rest of ['', ': and a word more\n\n']) {
    test(`keep the connection open after [DONE]${rest === '' ? '' : ', and go on'}`, { timeout: 10_000 }, async () => {
      let isCancelled = false;
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(Buffer.from(delta({ content: 'Hi' }, 'stop') + done));
          if (rest !== '') controller.enqueue(Buffer.from(rest));
        },
        cancel: () => {
          isCancelled = true;
        },
      });
      const model = createChatModel('llama', { baseUrl: 'http://x', apiKey: undefined, ask: async () => new Response(body) });
      assert.equal(textOf(await collect(model.stream(callOf(), neverAborted))), 'Hi');
      while (!isCancelled) await new Promise((resolve) => setTimeout(resolve, 50));
    });
  }

  test('count no tokens: they are estimated', async () => {
    const parts = await answer(delta({ reasoning: '12345678' }), delta({ content: '1234' }, 'stop'), done);
    // 'Be brief.' and 'Hello' are 14 characters, the answer 12.
    assert.deepEqual(finishOf(parts)?.usage, { input: 4, output: 3, cachedInput: 0 });
  });

  test('count cached tokens in another place', async () => {
    const usage = { prompt_tokens: 10, completion_tokens: 2, prompt_cache_hit_tokens: 8 };
    const parts = await answer(delta({ content: 'Hi' }, 'stop'), `data: ${JSON.stringify({ choices: [], usage })}\n\n`, done);
    assert.deepEqual(finishOf(parts)?.usage, { input: 10, output: 2, cachedInput: 8 });
  });

  test('count its thoughts only in the total', async () => {
    const outputOf = async (total_tokens: unknown) => {
      const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens };
      return finishOf(await answer(delta({ content: 'Hi' }, 'stop'), `data: ${JSON.stringify({ choices: [], usage })}\n\n`, done))?.usage
        .output;
    };
    assert.deepEqual(await Promise.all([42, 12, 0, '42', -1, undefined].map(outputOf)), [32, 2, 2, 2, 2, 2]);
  });

  test('count what cannot be', async () => {
    const usageOf = async (usage: object) =>
      finishOf(await answer(delta({ content: '1234' }, 'stop'), `data: ${JSON.stringify({ choices: [], usage })}\n\n`, done))?.usage;
    const cached = { prompt_tokens: 10, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 50 } };
    assert.deepEqual(await usageOf(cached), { input: 10, output: 2, cachedInput: 10 });
    assert.deepEqual(await usageOf({ prompt_tokens: 10 }), { input: 4, output: 1, cachedInput: 0 }, 'half a count is none');
  });

  test('count no tokens of calls: they are estimated with their names and signatures', async () => {
    const call = { id: 'a', function: { name: 'look', arguments: '{"a":1}' }, extra_content: { signature: '12345' } };
    // 4 characters of the name, 7 of the input, 14 of the signature.
    assert.equal(finishOf(await answer(delta({ tool_calls: [call] }, 'stop'), done))?.usage.output, 7);
  });

  test('send the same thought under both names', async () => {
    const parts = await answer(delta({ reasoning: 'Hm.', reasoning_content: 'Hm.' }), delta({ content: 'Hi' }, 'stop'), done);
    assert.equal(reasoningOf(parts), 'Hm.');
    assert.deepEqual(
      parts.map((part) => part.type),
      ['reasoning-delta', 'reasoning-end', 'text-delta', 'finish'],
    );
  });

  test('think and say nothing else', async () => {
    const parts = await answer(delta({ reasoning: 'Hm.' }, 'length'), done);
    assert.deepEqual(
      parts.map((part) => part.type),
      ['reasoning-delta', 'reasoning-end', 'finish'],
    );
  });

  test('not stream at all', async () => {
    const whole = {
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1 },
    };
    const model = modelAnswering([JSON.stringify(whole)], { 'content-type': 'Application/JSON; charset=utf-8' });
    assert.deepEqual(await collect(model.stream(callOf(), neverAborted)), [
      { type: 'text-delta', text: 'Hi', isLast: true },
      { type: 'finish', usage: { input: 3, output: 1, cachedInput: 0 } },
    ]);
  });

  test('answer 200 and mean an error', async () => {
    const model = modelAnswering(['{"error":{"message":"No such key","code":401}}'], { 'content-type': 'application/json' });
    await assert.rejects(collect(model.stream(callOf(), neverAborted)), { code: 'byok_key_rejected' });
  });

  test('send what is no chunk', async () => {
    assert.equal(
      textOf(await answer('data: null\n\ndata: 7\n\ndata: {}\n\ndata: {"choices":[null]}\n\n', delta({ content: 'Hi' }, 'stop'))),
      'Hi',
    );
  });
});

test('an event without an end is cut off before it fills the memory', async () => {
  const piece = Buffer.alloc(1024 * 1024, 'x');
  let sent = 0;
  async function* endless() {
    yield Buffer.from('data: ');
    for (; sent < 64; sent += 1) yield piece;
  }
  const fetch = async () => new Response(ReadableStream.from(endless()));
  const model = createChatModel('llama', { baseUrl: 'http://x', apiKey: undefined, ask: fetch });
  await assert.rejects(collect(model.stream(callOf(), neverAborted)), { code: 'broken_stream' });
  assert.ok(sent < 16);
});

test('a redirect is not followed: the key stays here', async () => {
  let redirect: string | undefined;
  const fetch = async (_url: unknown, init?: RequestInit) => {
    redirect = init?.redirect;
    return new Response(null, { status: 307, headers: { location: 'http://elsewhere/' } });
  };
  const model = createChatModel('llama', { baseUrl: 'http://x', apiKey: 'sk-key', ask: fetch });
  await assert.rejects(collect(model.stream(callOf(), neverAborted)), { code: 'model_error' });
  assert.equal(redirect, 'manual');
});
