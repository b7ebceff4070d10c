import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';
import { readSettings } from '../../../src/harness/models/read-settings.ts';

const folder = new URL('../../../examples/releases/', import.meta.url);

test('the example releases are one for each provider, and good', () => {
  const providers = readdirSync(folder).map((file) => {
    const { model } = completeReleaseConfig(JSON.parse(readFileSync(new URL(file, folder), 'utf8')));
    readSettings(model.provider, model.settings);
    assert.equal(`${model.provider}.json`, file);
    return model.provider;
  });
  assert.deepEqual(providers.sort(), ['anthropic', 'google', 'offline', 'openai', 'openai-compatible']);
});
