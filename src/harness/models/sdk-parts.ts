import type { LanguageModelV4StreamPart, LanguageModelV4Usage, SharedV4ProviderMetadata } from '@ai-sdk/provider';
import { isRecord } from '../../text/json.ts';
import type { ModelPart } from '../model.ts';
import { isTokenCount } from './estimate-tokens.ts';
import { brokenOf, type Called, cutOff, failureOf, readFailure } from './model-failure.ts';
import { parseToolInput } from './tool-input.ts';

/** Returns a function that converts a provider's stream part by part, and throws `ModelError` for a failure inside the stream. */
export function createPartReader(called: Called, estimate: () => { input: number; output: number }) {
  let reasoningMetadata: SharedV4ProviderMetadata | undefined;

  return function read(part: LanguageModelV4StreamPart): ModelPart | undefined {
    switch (part.type) {
      case 'text-delta':
        return part.delta === '' ? undefined : { type: 'text-delta', text: part.delta };
      case 'reasoning-start':
        reasoningMetadata = part.providerMetadata;
        return undefined;
      case 'reasoning-delta':
        // A signature comes as a delta without text.
        reasoningMetadata = mergeMetadata(reasoningMetadata, part.providerMetadata);
        return part.delta === '' ? undefined : { type: 'reasoning-delta', text: part.delta };
      case 'reasoning-end': {
        const providerMetadata = mergeMetadata(reasoningMetadata, part.providerMetadata);
        reasoningMetadata = undefined;
        return providerMetadata === undefined ? { type: 'reasoning-end' } : { type: 'reasoning-end', providerMetadata };
      }
      case 'tool-call': {
        // The provider has run this call itself.
        if (part.providerExecuted === true) return undefined;
        const call: ModelPart = { type: 'tool-call', tool: part.toolName, input: parseToolInput(part.input) };
        return part.providerMetadata === undefined ? call : { ...call, providerMetadata: part.providerMetadata };
      }
      case 'finish': {
        const reason = part.finishReason.unified;
        if (reason === 'interrupted') throw cutOff(called);
        if (reason === 'error') throw failureOf(called, { message: part.finishReason.raw ?? 'no reason given' });
        return { type: 'finish', usage: toUsage(part.usage, estimate) };
      }
      case 'error':
        throw streamFailure(called, part.error);
      default:
        return undefined;
    }
  };
}

function streamFailure(called: Called, error: unknown): Error {
  if (error instanceof Error) return brokenOf(called, error);
  return failureOf(called, readFailure(isRecord(error) && isRecord(error.data) ? { ...error.data, ...error } : error));
}

function toUsage({ inputTokens, outputTokens }: LanguageModelV4Usage, estimate: () => { input: number; output: number }) {
  const input = isTokenCount(inputTokens.total) ? inputTokens.total : estimate().input;
  const output = isTokenCount(outputTokens.total) ? outputTokens.total : estimate().output;
  return { input, output, cachedInput: isTokenCount(inputTokens.cacheRead) ? Math.min(inputTokens.cacheRead, input) : 0 };
}

function mergeMetadata(left: SharedV4ProviderMetadata | undefined, right: SharedV4ProviderMetadata | undefined) {
  if (left === undefined || right === undefined) return left ?? right;
  const merged = { ...left };
  for (const [key, metadata] of Object.entries(right)) merged[key] = { ...merged[key], ...metadata };
  return merged;
}
