import type { LanguageModelV4, LanguageModelV4CallOptions } from '@ai-sdk/provider';
import type { JsonObject } from '../../text/json.ts';

/** What differs between the providers of the AI SDK. */
export interface SdkProvider {
  /** Its name in options and metadata. */
  key: string;
  /** Always passed to the package, which would otherwise read one from the environment. */
  baseUrl: string;
  /** Imported on first use: each of these packages costs about 100 ms and 24 MB. */
  load(name: string, settings: SdkSettings): Promise<LanguageModelV4>;
  options: JsonObject;
  /** How to request extended thinking; undefined for a model that has none. */
  thinking(name: string): { reasoning?: NonNullable<LanguageModelV4CallOptions['reasoning']>; options: JsonObject } | undefined;
  /** Whether the model refuses to think in a turn that began without its thoughts. */
  thinksOnlyFromTheStart?(name: string): boolean;
  /** Set on a message to let the provider cache the prompt up to there. */
  cachePoint?: JsonObject;
}

export interface SdkSettings {
  apiKey: string;
  baseURL: string;
  fetch: typeof globalThis.fetch;
}

export const sdkProviders: Record<'anthropic' | 'openai' | 'google', SdkProvider> = {
  anthropic: {
    key: 'anthropic',
    baseUrl: 'https://api.anthropic.com/v1',
    load: async (name, settings) => (await import('@ai-sdk/anthropic')).createAnthropic(settings)(name),
    options: {},
    // The package turns the effort into a token budget or adaptive thinking, depending on the model.
    thinking: (name) => (/^claude-3-(?!7)/.test(name) ? undefined : { reasoning: 'medium', options: {} }),
    // Up to 4.5. Later models may begin to think at any step.
    thinksOnlyFromTheStart: (name) => /claude-(3[-.]7|\w+-4(?![-.][6-9]))/.test(name),
    cachePoint: { cacheControl: { type: 'ephemeral' } },
  },
  openai: {
    key: 'openai',
    baseUrl: 'https://api.openai.com/v1',
    load: async (name, settings) => (await import('@ai-sdk/openai')).createOpenAI(settings).responses(name),
    // The provider stores nothing: it returns the reasoning encrypted, and it is sent again from our own log.
    options: { store: false },
    thinking: () => ({ options: { reasoningSummary: 'auto' } }),
  },
  google: {
    key: 'google',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    load: async (name, settings) => (await import('@ai-sdk/google')).createGoogle(settings)(name),
    options: {},
    thinking: (name) => (/^(gemma|gemini-(1|2\.0))/.test(name) ? undefined : { options: { thinkingConfig: { includeThoughts: true } } }),
  },
};
