import type {
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ReasoningPart,
  LanguageModelV4TextPart,
  LanguageModelV4ToolCallPart,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider';
import { isJsonObject } from '../../text/json.ts';
import type { AssistantPart, ModelCall, ModelTool, PromptMessage, ToolResultPart } from '../model.ts';
import { sentToolName, toolInputObject } from './tool-input.ts';
import { userText } from './user-text.ts';

/** `key` is the provider's name in metadata: a provider gets only its own metadata back. */
export function toSdkPrompt(call: ModelCall, key: string): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  if (call.instructions !== '') prompt.push({ role: 'system', content: call.instructions });
  for (const message of call.messages) {
    const converted = toSdkMessage(message, key);
    if (converted !== undefined) prompt.push(converted);
  }
  return prompt;
}

/** Marks up to where a provider with explicit prompt caching may cache: to the end of the instructions, and of the whole prompt. */
export function markCachePoints(prompt: LanguageModelV4Prompt, options: SharedV4ProviderOptions): void {
  const last = prompt.at(-1);
  const first = prompt.at(0);
  if (last !== undefined) last.providerOptions = options;
  if (first?.role === 'system') first.providerOptions = options;
}

export function toSdkTools(tools: readonly ModelTool[]): LanguageModelV4FunctionTool[] {
  return tools.map(({ name, description, inputSchema }) => ({ type: 'function', name, description, inputSchema }));
}

/** Whether the first answer after the last user message has no thoughts of this provider: another's may have given it. */
export function beganWithoutThoughts(messages: readonly PromptMessage[], key: string): boolean {
  const first = messages[messages.findLastIndex((message) => message.role === 'user') + 1];
  if (first?.role !== 'assistant') return false;
  return !first.parts.some((part) => part.type === 'reasoning' && ownOptions(part.providerMetadata, key) !== undefined);
}

function toSdkMessage(message: PromptMessage, key: string): LanguageModelV4Message | undefined {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: [{ type: 'text', text: userText(message) }] };
    case 'assistant': {
      const parts = message.parts.flatMap((part) => toSdkAssistantPart(part, key));
      // An answer that was stopped may end with its thoughts: providers refuse those that nothing follows.
      const content = parts.slice(0, parts.findLastIndex((part) => part.type !== 'reasoning') + 1);
      return content.length === 0 ? undefined : { role: 'assistant', content };
    }
    case 'tool':
      return message.results.length === 0 ? undefined : { role: 'tool', content: message.results.map(toSdkResult) };
  }
}

type SdkAssistantPart = LanguageModelV4TextPart | LanguageModelV4ReasoningPart | LanguageModelV4ToolCallPart;

function toSdkAssistantPart(part: AssistantPart, key: string): SdkAssistantPart[] {
  switch (part.type) {
    case 'text':
      // Providers refuse a blank text.
      return part.text.trim() === '' ? [] : [{ type: 'text', text: part.text }];
    case 'reasoning': {
      // A provider accepts reasoning only with its own signature or id.
      const providerOptions = ownOptions(part.providerMetadata, key);
      return providerOptions === undefined ? [] : [{ type: 'reasoning', text: part.text, providerOptions }];
    }
    case 'tool-call': {
      const providerOptions = ownOptions(part.providerMetadata, key);
      const call: LanguageModelV4ToolCallPart = {
        type: 'tool-call',
        toolCallId: part.callId,
        toolName: sentToolName(part.tool),
        input: toolInputObject(part.input),
      };
      return [providerOptions === undefined ? call : { ...call, providerOptions }];
    }
  }
}

function toSdkResult(result: ToolResultPart): LanguageModelV4ToolResultPart {
  const output: LanguageModelV4ToolResultPart['output'] = { type: result.isError ? 'error-text' : 'text', value: result.output };
  return { type: 'tool-result', toolCallId: result.callId, toolName: sentToolName(result.tool), output };
}

function ownOptions(metadata: Record<string, unknown> | undefined, key: string): SharedV4ProviderOptions | undefined {
  const own = metadata?.[key];
  return isJsonObject(own) ? { [key]: own } : undefined;
}
