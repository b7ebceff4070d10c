import type { ModelCall, ModelPart, ModelTool, PromptMessage } from '../../../src/harness/model.ts';
import { createModel } from '../../../src/harness/models/create-model.ts';
import type { ModelConfig, Provider } from '../../../src/release-config.ts';

export const apiKey = 'sk-secret-0123456789';

/** The four wires, each with an ordinary answer and one that thinks and calls two tools. */
export interface ProviderCase {
  provider: Exclude<Provider, 'offline'>;
  name: string;
  basePath: string;
  text: string;
  tools: string;
}

export const providerCases: ProviderCase[] = [
  {
    provider: 'anthropic',
    name: 'claude-sonnet-4-5',
    basePath: '/v1',
    text: 'anthropic-text',
    tools: 'anthropic-thinking-tools',
  },
  {
    provider: 'openai',
    name: 'gpt-5',
    basePath: '/v1',
    text: 'openai-text',
    tools: 'openai-reasoning-tools',
  },
  {
    provider: 'google',
    name: 'gemini-3-pro-preview',
    basePath: '/v1beta',
    text: 'google-text',
    tools: 'google-thinking-tools',
  },
  {
    provider: 'openai-compatible',
    name: 'deepseek-reasoner',
    basePath: '/v1',
    text: 'chat-text',
    tools: 'chat-reasoning-tools',
  },
];

export const tools: ModelTool[] = [
  {
    name: 'files',
    description: 'Reads and writes files',
    inputSchema: { type: 'object', properties: { operation: { type: 'string' }, path: { type: 'string' } }, required: ['operation'] },
  },
  { name: 'bash', description: 'Runs a command', inputSchema: { type: 'object', properties: {} } },
];

export function modelAt(origin: string, { provider, name, basePath }: Pick<ProviderCase, 'provider' | 'name' | 'basePath'>) {
  const config: ModelConfig = { provider, name, base_url: origin + basePath, settings: {} };
  return createModel(config, { apiKey, fetch: globalThis.fetch });
}

export function callOf(messages: PromptMessage[] = [{ role: 'user', text: 'Hello' }], changes: Partial<ModelCall> = {}): ModelCall {
  return { instructions: 'Be brief.', messages, tools: [], thinking: false, settings: {}, received: 0, ...changes };
}

export async function collect(parts: AsyncIterable<ModelPart>): Promise<ModelPart[]> {
  const collected: ModelPart[] = [];
  for await (const part of parts) collected.push(part);
  return collected;
}

export const neverAborted = new AbortController().signal;

export const textOf = (parts: ModelPart[]) => parts.map((part) => (part.type === 'text-delta' ? part.text : '')).join('');
export const reasoningOf = (parts: ModelPart[]) => parts.map((part) => (part.type === 'reasoning-delta' ? part.text : '')).join('');

/** The loop gives calls ids of its own. */
export const callIds = ['call_01KB0Q7Z8M0000T3VN5WXYA1B2', 'call_01KB0Q7Z8M0001H6JK7MNPC3D4'] as const;

/** What the loop would keep of an answer, to send it back. */
export function assistantMessage(parts: ModelPart[]): PromptMessage {
  const kept: Extract<PromptMessage, { role: 'assistant' }>['parts'] = [];
  let calls = 0;
  let reasoning = '';
  let text = '';
  for (const part of parts) {
    if (part.type === 'reasoning-delta') reasoning += part.text;
    if (part.type === 'text-delta') text += part.text;
    if (part.type === 'reasoning-end') {
      kept.push({ type: 'reasoning', text: reasoning, ...(part.providerMetadata && { providerMetadata: part.providerMetadata }) });
      reasoning = '';
    }
    if (part.type === 'tool-call') kept.push({ ...part, callId: callIds[calls++] ?? '' });
  }
  if (text !== '') kept.splice(kept.findIndex((part) => part.type === 'tool-call') >>> 0, 0, { type: 'text', text });
  return { role: 'assistant', parts: kept };
}

export function callsOf(parts: ModelPart[]) {
  return parts.flatMap((part) => (part.type === 'tool-call' ? [part] : []));
}

export function finishOf(parts: ModelPart[]) {
  return parts.find((part) => part.type === 'finish');
}
