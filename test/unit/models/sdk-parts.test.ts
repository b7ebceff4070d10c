import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import type { LanguageModelV4StreamPart, LanguageModelV4Usage } from '@ai-sdk/provider';
import type { ModelPart } from '../../../src/harness/model.ts';
import { createPartReader } from '../../../src/harness/models/sdk-parts.ts';
import { sdkProviders } from '../../../src/harness/models/sdk-providers.ts';

function read(...parts: LanguageModelV4StreamPart[]): (ModelPart | undefined)[] {
  const reader = createPartReader({ provider: 'anthropic', apiKey: 'sk-key' }, () => ({ input: 11, output: 7 }));
  return parts.map(reader);
}

function finish(unified: 'stop' | 'error' | 'interrupted', usage: { total?: number; cacheRead?: number; output?: number } = {}) {
  const { total, cacheRead, output } = usage;
  const inputTokens: LanguageModelV4Usage['inputTokens'] = { total, noCache: undefined, cacheRead, cacheWrite: undefined };
  const outputTokens: LanguageModelV4Usage['outputTokens'] = { total: output, text: undefined, reasoning: undefined };
  return { type: 'finish' as const, finishReason: { unified, raw: 'its own word' }, usage: { inputTokens, outputTokens } };
}

describe('of what a package streams', () => {
  test('empty pieces, and tools that the provider ran itself, are nothing', () => {
    const call = { type: 'tool-call' as const, toolCallId: 'a', toolName: 'search', input: '{}' };
    assert.deepEqual(
      read(
        { type: 'text-delta', id: '1', delta: '' },
        { type: 'reasoning-start', id: '2' },
        { type: 'reasoning-delta', id: '2', delta: '' },
        { ...call, providerExecuted: true },
        call,
      ),
      [undefined, undefined, undefined, undefined, { type: 'tool-call', tool: 'search', input: {} }],
    );
  });

  test('all that was said about a thought stays together, wherever it came', () => {
    const parts = read(
      { type: 'reasoning-start', id: '1', providerMetadata: { anthropic: { one: 1 } } },
      { type: 'reasoning-delta', id: '1', delta: 'Hm.' },
      { type: 'reasoning-delta', id: '1', delta: '', providerMetadata: { anthropic: { signature: 'abc' } } },
      { type: 'reasoning-end', id: '1', providerMetadata: { other: { two: 2 } } },
      { type: 'reasoning-start', id: '2' },
      { type: 'reasoning-end', id: '2' },
    );
    assert.deepEqual(parts, [
      undefined,
      { type: 'reasoning-delta', text: 'Hm.' },
      undefined,
      { type: 'reasoning-end', providerMetadata: { anthropic: { one: 1, signature: 'abc' }, other: { two: 2 } } },
      undefined,
      { type: 'reasoning-end' },
    ]);
  });

  test('counts that are missing are estimated, and more cannot be cached than was sent', () => {
    const usageOf = (...usage: Parameters<typeof finish>) => read(finish(...usage)).map((part) => part?.type === 'finish' && part.usage);
    assert.deepEqual(usageOf('stop'), [{ input: 11, output: 7, cachedInput: 0 }]);
    assert.deepEqual(usageOf('stop', { total: 5, cacheRead: 9, output: 2 }), [{ input: 5, output: 2, cachedInput: 5 }]);
  });

  test('an end that is none, and a failure in any form, is a failure', () => {
    assert.throws(() => read(finish('interrupted')), { code: 'broken_stream' });
    assert.throws(() => read(finish('error')), { code: 'model_error', message: 'anthropic failed: its own word' });
    const failing = (error: unknown) => () => read({ type: 'error', error });
    assert.throws(failing({ type: 'overloaded_error', message: 'Busy' }), { code: 'overloaded', message: 'anthropic is overloaded: Busy' });
    assert.throws(failing({ type: 'error', data: { message: 'Gone' } }), { code: 'model_error', message: 'anthropic failed: Gone' });
    const lost = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    assert.throws(failing(lost), { code: 'broken_stream' });
  });
});

test('thinking is asked only of models that have it', () => {
  const asks = (provider: keyof typeof sdkProviders, names: string[]) =>
    names.filter((name) => sdkProviders[provider].thinking(name) !== undefined);
  assert.deepEqual(asks('anthropic', ['claude-3-haiku-20240307', 'claude-3-7-sonnet-latest', 'claude-sonnet-4-5']), [
    'claude-3-7-sonnet-latest',
    'claude-sonnet-4-5',
  ]);
  assert.deepEqual(asks('google', ['gemma-3-27b-it', 'gemini-1.5-pro', 'gemini-2.0-flash', 'gemini-2.5-pro']), ['gemini-2.5-pro']);
});
