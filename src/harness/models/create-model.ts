import { googleModelName, type ModelConfig } from '../../release-config.ts';
import { type Model, type ModelCall, ModelError, type ModelPart } from '../model.ts';
import { type Ask, createChatModel } from './chat-wire.ts';
import { contextLimitOf } from './context-limits.ts';
import { createOfflineModel } from './offline.ts';
import { shortName } from './prices.ts';
import { createSdkModel } from './sdk-model.ts';
import { sdkProviders } from './sdk-providers.ts';

export interface ModelOptions {
  /** The organization's own key. */
  apiKey: string | undefined;
  /** Used when there is no `apiKey`, and sent only to the provider itself: a release could send it anywhere with its `base_url`. */
  operatorsModelKey?: string | undefined;
  /** Every request of a model goes through this; the server passes the guarded one. */
  fetch: typeof globalThis.fetch;
  /** The same for less CPU, if there is such: for the wire that we read ourselves. */
  ask?: Ask;
}

/** Loads and connects nothing before the first call. */
export function createModel(config: ModelConfig, { apiKey, operatorsModelKey, fetch, ask = fetch }: ModelOptions): Model {
  const { provider, name } = config;
  switch (provider) {
    case 'offline':
      return createOfflineModel(name);
    case 'openai-compatible':
      if (config.base_url === null)
        return createFailingModel(config, 'invalid_model_request', `${provider} needs a base_url in the release`);
      return createChatModel(name, { baseUrl: config.base_url, apiKey, ask });
    case 'anthropic':
    case 'openai':
    case 'google': {
      const key = apiKey ?? (config.base_url === null ? operatorsModelKey : undefined);
      if (key === undefined) return createFailingModel(config, 'byok_key_rejected', `No API key is stored for ${provider}`);
      // Releases are stored that were made before such names were refused, and a trial of a model comes from no release.
      if (provider === 'google' && !googleModelName.test(name))
        return createFailingModel(config, 'invalid_model_request', 'The name of the model is not one of a Google model');
      const baseURL = config.base_url ?? sdkProviders[provider].baseUrl;
      // The short name tells whether the model can think; the URL is the same for both.
      return createSdkModel(provider, shortName(provider, name), { apiKey: key, baseURL, fetch });
    }
  }
}

/** A missing key or URL, or a bad name, is reported when a turn runs, like a refusal of the provider. */
function createFailingModel({ provider, name }: ModelConfig, code: 'byok_key_rejected' | 'invalid_model_request', message: string): Model {
  const stream = (_call: ModelCall, _signal: AbortSignal): AsyncIterable<ModelPart> => ({
    [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new ModelError(code, provider, message)) }),
  });
  return { provider, name, contextLimit: contextLimitOf(name), stream };
}
