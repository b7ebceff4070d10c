import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { limitBody } from '../../limit-body.ts';
import { isJsonObject, isRecord, type JsonObject } from '../../text/json.ts';
import { loadOnce } from '../../work/load-once.ts';
import { type Model, type ModelCall, ModelError, type ModelPart } from '../model.ts';
import { contextLimitOf } from './context-limits.ts';
import { endReading } from './end-reading.ts';
import { estimateUsage } from './estimate-tokens.ts';
import { brokenOf, type Called, cutOff, failureOf, maxAnswerCharacters, maxStreamBytes, readFailure, tooLong } from './model-failure.ts';
import { readSettings } from './read-settings.ts';
import { createPartReader } from './sdk-parts.ts';
import { beganWithoutThoughts, markCachePoints, toSdkPrompt, toSdkTools } from './sdk-prompt.ts';
import { type SdkProvider, type SdkSettings, sdkProviders } from './sdk-providers.ts';

/** A model of Anthropic, OpenAI or Google, through the AI SDK's package for it. */
export function createSdkModel(provider: keyof typeof sdkProviders, name: string, settings: SdkSettings): Model {
  const sdk = sdkProviders[provider];
  const called: Called = { provider, apiKey: settings.apiKey };
  const fetch: typeof globalThis.fetch = async (url, init) =>
    limitBody(await settings.fetch(url, init), { maxBytes: maxStreamBytes, signal: init?.signal });
  const loaded = loadOnce(() => sdk.load(name, { ...settings, fetch }));

  async function* stream(call: ModelCall, signal: AbortSignal): AsyncGenerator<ModelPart> {
    signal.throwIfAborted();
    const options = callOptions(provider, sdk, name, call);
    const read = createPartReader(called, () => estimateUsage(call));
    let reader: ReadableStreamDefaultReader<LanguageModelV4StreamPart> | undefined;
    let isComplete = false;
    // A package that fails gives no stream to cancel, and leaves the one of the response open.
    const left = new AbortController();
    try {
      const model = await loaded.get();
      const answer = await model.doStream({ ...options, abortSignal: AbortSignal.any([signal, left.signal]) });
      reader = answer.stream.getReader();
      while (!isComplete) {
        const chunk = await reader.read();
        if (signal.aborted) throw signal.reason;
        if (chunk.done) throw cutOff(called);
        if ('delta' in chunk.value) call.received += chunk.value.delta.length;
        else if (chunk.value.type === 'tool-input-start') call.received += chunk.value.toolName.length;
        if (call.received > maxAnswerCharacters) throw tooLong(called);
        const part = read(chunk.value);
        if (part === undefined) continue;
        isComplete = part.type === 'finish';
        yield part;
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : toModelError(called, error);
    } finally {
      endReading(reader, isComplete);
      if (!isComplete) left.abort();
    }
  }

  return { provider, name, contextLimit: contextLimitOf(name), stream };
}

function callOptions(provider: string, sdk: SdkProvider, name: string, call: ModelCall): LanguageModelV4CallOptions {
  const settings = readSettings(provider, call.settings);
  const isTooLate = sdk.thinksOnlyFromTheStart?.(name) === true && beganWithoutThoughts(call.messages, sdk.key);
  const thinking = call.thinking && !isTooLate ? sdk.thinking(name) : undefined;
  const prompt = toSdkPrompt(call, sdk.key);
  if (sdk.cachePoint !== undefined) markCachePoints(prompt, { [sdk.key]: sdk.cachePoint });
  const own = mergeOptions(mergeOptions(sdk.options, thinking?.options ?? {}), settings.providerOptions);
  // The release can ask for it too.
  if (isTooLate) delete own.thinking;
  return {
    prompt,
    providerOptions: { [sdk.key]: own },
    ...(call.tools.length === 0 ? {} : { tools: toSdkTools(call.tools) }),
    ...(thinking?.reasoning === undefined ? {} : { reasoning: thinking.reasoning }),
    ...(settings.temperature === undefined ? {} : { temperature: settings.temperature }),
    ...(settings.topP === undefined ? {} : { topP: settings.topP }),
    ...(settings.maxOutputTokens === undefined ? {} : { maxOutputTokens: settings.maxOutputTokens }),
    ...(settings.stop === undefined ? {} : { stopSequences: settings.stop }),
  };
}

/** The right side wins; objects in both are merged, so that a release can set one part of an option and keep the rest. */
function mergeOptions(left: JsonObject, right: JsonObject): JsonObject {
  const merged: JsonObject = { ...left };
  for (const [key, value] of Object.entries(right)) {
    const present = merged[key];
    merged[key] = isJsonObject(present) && isJsonObject(value) ? { ...present, ...value } : value;
  }
  return merged;
}

/** Reads the package's errors by their fields, because their classes are not loaded, and keeps none, because they hold the whole prompt. */
function toModelError(called: Called, error: unknown): ModelError {
  if (error instanceof ModelError) return error;
  if (isRecord(error) && typeof error.statusCode === 'number' && (error.statusCode < 200 || error.statusCode >= 300)) {
    const headers = isRecord(error.responseHeaders) ? new Headers(stringEntries(error.responseHeaders)) : undefined;
    const body = typeof error.responseBody === 'string' && error.responseBody !== '' ? error.responseBody : error;
    return failureOf(called, readFailure(body, error.statusCode, headers));
  }
  return brokenOf(called, error);
}

function stringEntries(record: Record<string, unknown>): [string, string][] {
  return Object.entries(record).flatMap(([name, value]): [string, string][] => (typeof value === 'string' ? [[name, value]] : []));
}
