import { isJsonObject } from '../../text/json.ts';
import type { AssistantPart, ModelCall, ModelTool, PromptMessage } from '../model.ts';
import { readSettings } from './read-settings.ts';
import { sentToolName, toolInputObject } from './tool-input.ts';
import { userText } from './user-text.ts';

/** The name in a part's metadata under which this wire keeps what the server needs back. */
export const metadataKey = 'openai-compatible';

/** The body of a `/chat/completions` call. `provider_options` are added to it unchanged. */
export function chatBody(name: string, call: ModelCall): string {
  const settings = readSettings(metadataKey, call.settings);
  const stream = settings.providerOptions.stream ?? call.whole !== true;
  return JSON.stringify({
    model: name,
    messages: chatMessages(call),
    tools: call.tools.length === 0 ? undefined : call.tools.map(chatTool),
    temperature: settings.temperature,
    top_p: settings.topP,
    max_tokens: settings.maxOutputTokens,
    stop: settings.stop,
    stream,
    stream_options: stream === true ? { include_usage: true } : undefined,
    ...settings.providerOptions,
  });
}

type ChatMessage = { role: 'system' | 'user'; content: string } | ChatAssistant | { role: 'tool'; tool_call_id: string; content: string };
type ChatAssistant = { role: 'assistant'; content: string | null; tool_calls?: object[] | undefined };

function chatMessages(call: ModelCall): ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (call.instructions !== '') messages.push({ role: 'system', content: call.instructions });
  const turnStart = call.messages.findLastIndex((message) => message.role === 'user');
  for (const [index, message] of call.messages.entries()) addMessage(messages, message, index > turnStart);
  return messages;
}

function addMessage(messages: ChatMessage[], message: PromptMessage, isOfThisTurn: boolean): void {
  switch (message.role) {
    case 'user':
      addUser(messages, userText(message));
      return;
    case 'assistant': {
      const assistant = chatAssistant(message.parts, isOfThisTurn);
      if (assistant !== undefined) addAssistant(messages, assistant);
      return;
    }
    case 'tool':
      for (const result of message.results)
        messages.push({ role: 'tool', tool_call_id: sentCallId(result.callId), content: result.output });
  }
}

/** Strict servers want users and assistants to take turns, but a turn may end without an answer, and a client may send more than one. */
function addUser(messages: ChatMessage[], text: string): void {
  const last = messages.at(-1);
  if (last?.role === 'user') last.content += `\n\n${text}`;
  else messages.push({ role: 'user', content: text });
}

function addAssistant(messages: ChatMessage[], added: ChatAssistant): void {
  const last = messages.at(-1);
  if (last?.role !== 'assistant' || last.tool_calls !== undefined) messages.push(added);
  else Object.assign(last, added, { content: added.content === null ? last.content : `${last.content}\n\n${added.content}` });
}

function chatAssistant(parts: readonly AssistantPart[], isOfThisTurn: boolean): ChatAssistant | undefined {
  let text = '';
  const reasoning: Record<string, string> = {};
  const calls: object[] = [];
  for (const part of parts) {
    if (part.type === 'text') text += part.text;
    else if (part.type === 'tool-call') calls.push(chatCall(part));
    else if (isOfThisTurn) addReasoning(reasoning, part);
  }
  // Providers refuse a blank text.
  const content = text.trim() === '' ? null : text;
  if (content === null && calls.length === 0) return undefined;
  return { role: 'assistant', content, ...reasoning, tool_calls: calls.length === 0 ? undefined : calls };
}

/** Models that think between tool calls need their reasoning back within the turn, and refuse or ignore that of earlier turns. */
function addReasoning(reasoning: Record<string, string>, part: Extract<AssistantPart, { type: 'reasoning' }>): void {
  const own = part.providerMetadata?.[metadataKey];
  const field = isJsonObject(own) ? own.field : undefined;
  if (field === 'reasoning' || field === 'reasoning_content') reasoning[field] = (reasoning[field] ?? '') + part.text;
}

function chatCall(part: Extract<AssistantPart, { type: 'tool-call' }>): object {
  const own = part.providerMetadata?.[metadataKey];
  return {
    id: sentCallId(part.callId),
    type: 'function',
    function: { name: sentToolName(part.tool), arguments: JSON.stringify(toolInputObject(part.input)) },
    // Gemini puts a signature of the call here, and refuses a call without it.
    extra_content: isJsonObject(own) ? own.extra_content : undefined,
  };
}

/** The random end of an id of ours: Mistral takes exactly nine letters and digits. */
function sentCallId(callId: string): string {
  return callId.slice(-9);
}

function chatTool({ name, description, inputSchema }: ModelTool): object {
  return { type: 'function', function: { name, description, parameters: inputSchema } };
}
