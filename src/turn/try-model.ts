import { ModelError } from '../harness/model.ts';
import type { ModelConfig } from '../release-config.ts';
import type { Settings } from './settings.ts';

export type Trial = { ok: true; milliseconds: number } | { ok: false; code: string; message: string; milliseconds: number };

const patienceMs = 20_000;

/** Asks a model for one word, with the organization's own key. A refusal by the provider is a result and is not thrown. */
export async function tryModel(settings: Settings, orgId: number, config: ModelConfig, signal: AbortSignal): Promise<Trial> {
  const started = performance.now();
  const milliseconds = () => Math.round(performance.now() - started);
  try {
    const model = await settings.modelOnOwnKey(orgId, config);
    const call = {
      instructions: 'Answer with one word.',
      messages: [{ role: 'user' as const, text: 'Say ok.' }],
      tools: [],
      thinking: false,
      settings: config.settings,
      received: 0,
    };
    const ending = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
    for await (const part of model.stream(call, ending)) if (part.type === 'finish') break;
    return { ok: true, milliseconds: milliseconds() };
  } catch (error) {
    if (error instanceof ModelError) return { ok: false, code: error.code, message: error.message, milliseconds: milliseconds() };
    if (error instanceof DOMException && error.name === 'TimeoutError')
      return { ok: false, code: 'timeout', message: `No answer within ${patienceMs / 1_000} s.`, milliseconds: milliseconds() };
    throw error;
  }
}
