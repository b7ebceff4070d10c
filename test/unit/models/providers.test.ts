import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import type { AssistantPart, ModelCall, PromptMessage } from '../../../src/harness/model.ts';
import { providerFixture, serveProvider } from '../../support/provider-server.ts';
import { apiKey, callOf, collect, modelAt, neverAborted, providerCases, reasoningOf, textOf, tools } from './provider-cases.ts';

for (const wire of providerCases) {
  describe(wire.provider, () => {
    test('streams text and counts its tokens, the cached ones too', async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.text) });
      t.after(() => server.close());
      const parts = await collect(modelAt(server.origin, wire).stream(callOf(), neverAborted));
      assert.equal(textOf(parts), 'Grüße, 世界 👋');
      assert.deepEqual(parts.slice(-1), [{ type: 'finish', usage: { input: 142, output: 9, cachedInput: 100 } }]);
    });

    test('thinks, and calls two tools with their input read', async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.tools) });
      t.after(() => server.close());
      const parts = await collect(modelAt(server.origin, wire).stream(callOf(undefined, { tools, thinking: true }), neverAborted));
      assert.equal(reasoningOf(parts), 'Two files to read.');
      const calls = parts.flatMap((part) => (part.type === 'tool-call' ? [[part.tool, part.input]] : []));
      assert.deepEqual(calls, [
        ['files', { operation: 'read', path: 'a.txt' }],
        ['bash', {}],
      ]);
      assert.deepEqual(parts.at(-1), { type: 'finish', usage: { input: 50, output: 80, cachedInput: 0 } });
      const order = parts.map((part) => part.type).filter((type, index, types) => type !== types[index - 1]);
      assert.equal(order.indexOf('reasoning-end') < order.indexOf('tool-call'), true);
    });

    test('counts what came of an answer that broke off, the input of a call too', async (t) => {
      const body = providerFixture(wire.tools);
      const server = await serveProvider({ body: body.slice(0, body.indexOf('\n\n', body.indexOf('operation')) + 2), cut: true });
      t.after(() => server.close());
      const call = callOf(undefined, { tools, thinking: true });
      await assert.rejects(collect(modelAt(server.origin, wire).stream(call, neverAborted)), { code: 'broken_stream' });
      // 18 characters of reasoning, 13 of text that only Claude says, the name of a tool and its input, and all of two calls from Google.
      const inputs = { anthropic: 13 + 5 + 20, openai: 5 + 20, google: 5 + 35 + 4 + 2, 'openai-compatible': 5 + 20 };
      assert.equal(call.received, 18 + inputs[wire.provider]);
    });

    test('reads a stream that comes byte by byte', async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.text), pieceBytes: 1 });
      t.after(() => server.close());
      const parts = await collect(modelAt(server.origin, wire).stream(callOf(), neverAborted));
      assert.equal(textOf(parts), 'Grüße, 世界 👋');
      assert.equal(parts.at(-1)?.type, 'finish');
    });

    test('shows the beginning of a slow stream before its end is there', async (t) => {
      const body = providerFixture(wire.text);
      const server = await serveProvider({ body: body.slice(0, body.indexOf('世界')), hang: true });
      t.after(() => server.close());
      const stop = new AbortController();
      const seen: string[] = [];
      const run = async () => {
        for await (const part of modelAt(server.origin, wire).stream(callOf(), stop.signal)) {
          if (part.type === 'text-delta') seen.push(part.text);
          stop.abort(new Error('seen enough'));
        }
      };
      await assert.rejects(run, { message: 'seen enough' });
      assert.deepEqual(seen, ['Grüße, ']);
    });

    test('ends with the reason when it is aborted before the answer begins, and lets the connection go', async (t) => {
      const server = await serveProvider({ body: '', hang: true });
      t.after(() => server.close());
      const reason = new Error('interrupted');
      const stop = new AbortController();
      const run = collect(modelAt(server.origin, wire).stream(callOf(), stop.signal));
      while (server.requests.length === 0) await new Promise(setImmediate);
      stop.abort(reason);
      await assert.rejects(run, reason);
      while (server.dropped() === 0) await new Promise(setImmediate);
    });

    test('lets the connection go when the caller stops listening', async (t) => {
      const body = providerFixture(wire.text);
      const server = await serveProvider({ body: body.slice(0, body.indexOf('世界')), hang: true });
      t.after(() => server.close());
      for await (const _ of modelAt(server.origin, wire).stream(callOf(), neverAborted)) break;
      while (server.dropped() === 0) await new Promise(setImmediate);
    });

    test('keeps its connection for the next call', async (t) => {
      // The end of the answer comes a little after its last word, as it does over a real network.
      const server = await serveProvider({ body: providerFixture(wire.text), endsAfterMilliseconds: 20 });
      t.after(() => server.close());
      const model = modelAt(server.origin, wire);
      for (let call = 1; call <= 3; call += 1) {
        await collect(model.stream(callOf(), neverAborted));
        while (server.finished() + server.dropped() < call) await new Promise(setImmediate);
      }
      assert.deepEqual([server.finished(), server.dropped()], [3, 0]);
      // The second call may come before the client knows that the first connection is free.
      assert.ok(server.connections() <= 2);
    });

    test('sends its key, its instructions and its settings', async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.text) });
      t.after(() => server.close());
      const settings = { temperature: 0.5, top_p: 0.9, max_output_tokens: 77, stop: ['END'] };
      // A model without thinking of its own takes every setting.
      const name = { anthropic: 'claude-3-haiku-20240307', openai: 'gpt-4.1', google: 'gemini-2.0-flash', 'openai-compatible': 'llama' }[
        wire.provider
      ];
      await collect(modelAt(server.origin, { ...wire, name }).stream(callOf(undefined, { settings, tools }), neverAborted));
      const request = server.requests[0];
      assert.ok(JSON.stringify(request?.headers).includes(apiKey));
      assert.ok(!request?.url.includes(apiKey));
      const sent = JSON.stringify(request?.body);
      for (const piece of ['Be brief.', 'Hello', '0.5', '77', 'Reads and writes files', '"operation"']) {
        assert.ok(sent.includes(piece), `${piece} is in ${sent}`);
      }
      // The responses wire has no stop sequences, and Claude takes temperature or top_p, not both.
      if (wire.provider !== 'openai') assert.ok(sent.includes('"END"'));
      if (wire.provider !== 'anthropic') assert.ok(sent.includes('0.9'));
    });

    test('refuses a setting of the wrong type without a request', async (t) => {
      const server = await serveProvider({ body: '' });
      t.after(() => server.close());
      const run = collect(modelAt(server.origin, wire).stream(callOf(undefined, { settings: { temperature: 'hot' } }), neverAborted));
      await assert.rejects(run, { code: 'invalid_model_request', message: 'The model setting "temperature" must be a number' });
      assert.equal(server.requests.length, 0);
    });
  });
}

describe('asking for thinking', () => {
  const asked = {
    anthropic: (body: Record<string, unknown>) => body.thinking,
    openai: (body: Record<string, unknown>) => body.reasoning,
    google: (body: Record<string, unknown>) => Object(body.generationConfig).thinkingConfig,
  };
  const expected = {
    anthropic: { type: 'enabled' },
    openai: { summary: 'auto' },
    google: { includeThoughts: true },
  };
  for (const wire of providerCases) {
    const { provider } = wire;
    if (provider === 'openai-compatible') continue;
    test(`is an option of ${provider}, and only when the turn wants it`, async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.text) });
      t.after(() => server.close());
      const model = modelAt(server.origin, wire);
      await collect(model.stream(callOf(undefined, { thinking: true }), neverAborted));
      await collect(model.stream(callOf(), neverAborted));
      const [thinking, plain] = server.requests.map((request) => asked[provider](request.body));
      assert.partialDeepStrictEqual(thinking, expected[provider]);
      assert.equal(plain, undefined);
    });
  }

  test('waits for the next turn where Claude would refuse it: up to 4.5 it thinks from the first step of a turn, or not in it', async (t) => {
    const call = (callId: string): AssistantPart => ({ type: 'tool-call', callId, tool: 'bash', input: {} });
    const thought = (key: string): AssistantPart => ({ type: 'reasoning', text: 'Hm.', providerMetadata: { [key]: { signature: 'sig' } } });
    const result = (callId: string): PromptMessage => ({
      role: 'tool',
      results: [{ callId, tool: 'bash', output: 'done', isError: false }],
    });
    const said: PromptMessage = { role: 'assistant', parts: [{ type: 'text', text: '[The turn ended here.]' }] };
    const turn = (key: string): PromptMessage[] => [
      { role: 'user', text: 'Go' },
      { role: 'assistant', parts: [thought(key), call('call_000000001')] },
      result('call_000000001'),
      { role: 'assistant', parts: [call('call_000000002')] },
      result('call_000000002'),
    ];
    const settings = { provider_options: { thinking: { type: 'enabled', budgetTokens: 2_000 } } };
    for (const [name, messages, changes, expected] of [
      ['claude-sonnet-4-5', turn('openai'), { thinking: true }, undefined],
      ['claude-sonnet-4-20250514', turn('openai'), { settings }, undefined],
      ['claude-sonnet-4-5', turn('anthropic'), { thinking: true }, 'enabled'],
      ['claude-sonnet-4-5', [...turn('openai'), said, { role: 'user', text: 'And now?' }], { thinking: true }, 'enabled'],
      ['claude-opus-4-6', turn('openai'), { thinking: true }, 'adaptive'],
    ] satisfies [string, PromptMessage[], Partial<ModelCall>, string | undefined][]) {
      const server = await serveProvider({ body: providerFixture('anthropic-text') });
      t.after(() => server.close());
      const model = modelAt(server.origin, { provider: 'anthropic', name, basePath: '/v1' });
      await collect(model.stream(callOf(messages, { tools, ...changes }), neverAborted));
      assert.equal(Object(server.requests[0]?.body.thinking).type, expected, name);
    }
  });

  test('goes by the model, whichever of its two names Google has been given', async (t) => {
    for (const [name, thinking] of [
      ['gemini-2.0-flash', undefined],
      ['gemma-3-27b-it', undefined],
      ['gemini-2.5-flash', { includeThoughts: true }],
    ] as const) {
      const server = await serveProvider({ body: providerFixture('google-text') });
      t.after(() => server.close());
      for (const given of [name, `models/${name}`]) {
        const model = modelAt(server.origin, { provider: 'google', name: given, basePath: '/v1beta' });
        await collect(model.stream(callOf(undefined, { thinking: true }), neverAborted));
      }
      const [short, long] = server.requests;
      assert.deepEqual([long?.url, long?.body], [short?.url, short?.body]);
      assert.deepEqual(Object(short?.body.generationConfig).thinkingConfig, thinking, name);
    }
  });

  test('keeps the rest of what a release set', async (t) => {
    const server = await serveProvider({ body: providerFixture('google-text') });
    t.after(() => server.close());
    const model = modelAt(server.origin, { provider: 'google', name: 'gemini-2.5-flash', basePath: '/v1beta' });
    const settings = { provider_options: { thinkingConfig: { thinkingBudget: 512 } } };
    await collect(model.stream(callOf(undefined, { thinking: true, settings }), neverAborted));
    assert.deepEqual(Object(server.requests[0]?.body.generationConfig).thinkingConfig, { includeThoughts: true, thinkingBudget: 512 });
  });
});
