import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';
import { pinRelease, type Upstreams } from '../../../src/accounts/pin-release.ts';

function upstreams(has: { own: boolean; operator: boolean }): Upstreams {
  return {
    checkUrl: async () => undefined,
    credentialFor: async () => (has.own ? 'sk-own' : undefined),
    hasOperatorsModelKey: () => has.operator,
    listServerTools: async () => [],
  };
}

const { signal } = new AbortController();

describe('a release is materialized', () => {
  const base_url = 'https://models.example.com/v1';
  const cases: [name: string, model: object, has: { own: boolean; operator: boolean }, isGood: boolean][] = [
    ["with the operator's key", {}, { own: false, operator: true }, true],
    ['with a key of its own', {}, { own: true, operator: false }, true],
    ['not without any key', {}, { own: false, operator: false }, false],
    ['with a key of its own at its own base_url', { base_url }, { own: true, operator: true }, true],
    ["not with the operator's key at its own base_url", { base_url }, { own: false, operator: true }, false],
    ['without a key on a compatible server', { provider: 'openai-compatible', base_url }, { own: false, operator: false }, true],
  ];
  for (const [name, model, has, isGood] of cases) {
    test(name, async () => {
      const config = completeReleaseConfig({ model: { provider: 'openai', name: 'gpt-5', ...model } });
      const outcome = await pinRelease(1, config, upstreams(has), signal);
      if (isGood) assert.deepEqual(outcome, { state: 'materialized', pinnedTools: [] });
      else assert.match(outcome.state === 'failed' ? outcome.error : '', /^credentials: no key for openai/);
    });
  }

  test('not without a key for the model of a sub-agent', async () => {
    const agents = [{ name: 'main' }, { name: 'writer', model: { provider: 'anthropic', name: 'claude-opus-4-5' } }];
    const outcome = await pinRelease(1, completeReleaseConfig({ agents }), upstreams({ own: false, operator: false }), signal);
    assert.match(outcome.state === 'failed' ? outcome.error : '', /^credentials: no key for anthropic/);
  });
});
