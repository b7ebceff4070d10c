import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { contextLimitOf } from '../../../src/harness/models/context-limits.ts';
import { costMicros, parsePrices, priceOf } from '../../../src/harness/models/prices.ts';

describe('the price of a model', () => {
  const prices: [provider: string, name: string, input: number, output: number][] = [
    ['offline', 'demo', 1, 1],
    ['anthropic', 'claude-sonnet-4-5-20250929', 3, 15],
    ['anthropic', 'claude-opus-4-1-20250805', 15, 75],
    ['anthropic', 'claude-opus-4-5', 5, 25],
    ['openai', 'gpt-4o-mini-2024-07-18', 0.15, 0.6],
    ['openai', 'gpt-4o', 2.5, 10],
    ['openai', 'gpt-4-0613', 30, 60],
    ['openai', 'gpt-4.1', 2, 8],
    ['openai', 'o1-2024-12-17', 15, 60],
    ['openai', 'o1-pro', 150, 600],
    ['openai', 'o1-mini', 1.1, 4.4],
    ['openai', 'gpt-4-1106-preview', 10, 30],
    ['openai', 'o3-pro-2025-06-10', 20, 80],
    ['openai', 'gpt-5', 1.25, 10],
    ['openai', 'gpt-5-mini', 0.25, 2],
    ['google', 'gemini-2.5-flash-lite', 0.1, 0.4],
    ['google', 'gemini-2.5-flash', 0.3, 2.5],
    ['google', 'models/gemini-2.5-flash', 0.3, 2.5],
    // Its owner chose the name, and it may be of any model.
    ['google', 'tunedModels/gemini-2.5-flash', 2, 12],
  ];
  for (const [provider, name, input, output] of prices) {
    test(`of ${provider} ${name} is the one of the longest name that fits`, () => {
      const price = priceOf(provider, name);
      assert.deepEqual([price.input, price.output], [input, output]);
    });
  }

  test('of a model or a provider that nobody knows is not nothing', () => {
    for (const [provider, name] of [
      ['openai', 'brand-new'],
      ['openai-compatible', 'llama'],
      ['unheard-of', 'x'],
    ] as const) {
      assert.ok(priceOf(provider, name).output > 0);
    }
  });

  test('is what the operator says, for a model, its family or the whole provider', () => {
    const overrides = parsePrices(
      JSON.stringify({
        'openai/gpt-5': { input: 1, output: 2 },
        'openai/gpt-5-mini': { input: 3, cached_input: 0, output: 4 },
        'openai-compatible': { input: 0, output: 0 },
      }),
    );
    assert.deepEqual(priceOf('openai', 'gpt-5-mini', overrides), { input: 3, cachedInput: 0, output: 4 });
    assert.deepEqual(priceOf('openai', 'gpt-5.2', overrides), { input: 1, cachedInput: 1, output: 2 });
    assert.deepEqual(priceOf('openai', 'gpt-4o', overrides), priceOf('openai', 'gpt-4o'));
    assert.deepEqual(priceOf('openai-compatible', 'any', overrides), { input: 0, cachedInput: 0, output: 0 });
    assert.deepEqual(priceOf('offline', 'demo', overrides), { input: 1, cachedInput: 1, output: 1 });
  });

  test('is the same under either name that Google has for it, in what the operator says too', () => {
    for (const key of ['google/gemini-9', 'google/models/gemini-9']) {
      const overrides = parsePrices(JSON.stringify({ [key]: { input: 7, output: 8 } }));
      for (const name of ['gemini-9-pro', 'models/gemini-9-pro']) assert.equal(priceOf('google', name, overrides).output, 8, name);
    }
  });
});

describe('the cost of a turn', () => {
  const costs: [name: string, price: [number, number, number], usage: [number, number, number], cost: number][] = [
    ['adds input and output', [3, 0.3, 15], [100, 10, 0], 450],
    ['takes cached input for less', [3, 0.3, 15], [100, 10, 50], 315],
    ['rounds up to a whole micro-dollar', [0.05, 0.005, 0.4], [1, 0, 0], 1],
    ['does not round up what only looks broken', [0.1, 0.1, 0.1], [2, 1, 0], 1],
    ['of 30 tokens at a tenth is 3', [0.1, 0.1, 0.1], [20, 10, 0], 3],
    ['is nothing for nothing', [3, 0.3, 15], [0, 0, 0], 0],
    ['is never below nothing when a provider counts oddly', [3, 0.3, 15], [10, 0, 50], 15],
  ];
  for (const [name, [input, cachedInput, output], [inputTokens, outputTokens, cachedTokens], cost] of costs) {
    test(name, () => {
      const usage = { input: inputTokens, output: outputTokens, cachedInput: cachedTokens };
      assert.equal(costMicros({ input, cachedInput, output }, usage), cost);
    });
  }
});

describe("the operator's prices are refused with one clear line when they are", () => {
  const refused: [name: string, value: unknown, message: RegExp][] = [
    ['no JSON', '{oops', /must be a JSON object/],
    ['a list', [], /must be a JSON object/],
    ['a number for a model', { 'openai/gpt-5': 3 }, /"openai\/gpt-5" must be an object/],
    ['without output', { openai: { input: 1 } }, /"openai" must have "output"/],
    ['below zero', { openai: { input: -1, output: 1 } }, /"openai" must have "input"/],
    ['with a field that means nothing', { openai: { input: 1, output: 1, ouput: 2 } }, /unknown field "ouput"/],
  ];
  for (const [name, value, message] of refused) {
    test(name, () => assert.throws(() => parsePrices(typeof value === 'string' ? value : JSON.stringify(value)), { message }));
  }
});

test('the context limit is known by the beginning of a name, behind a gateway too', () => {
  const limits: [name: string, tokens: number][] = [
    ['claude-sonnet-4-5', 200_000],
    ['anthropic/claude-opus-4-5', 200_000],
    ['gpt-4.1-mini', 1_047_576],
    ['gpt-4o', 128_000],
    ['gpt-5', 400_000],
    ['o3-mini', 200_000],
    ['gemini-2.5-pro', 1_048_576],
    ['something-new', 128_000],
    ['Qwen/Qwen3-32B', 32_000],
    ['openai/gpt-oss-120b', 128_000],
    ['gpt-oss:20b', 128_000],
    ['gemma2:9b', 8_000],
    ['google/gemma-3n-E4B-it', 32_000],
    ['gemma3:1b', 32_000],
    ['gemma3:27b', 128_000],
    ['llama3', 8_000],
    ['llama3:70b', 8_000],
    ['llama3.1', 128_000],
  ];
  for (const [name, tokens] of limits) assert.equal(contextLimitOf(name), tokens, name);
});
