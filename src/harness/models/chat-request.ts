import { isJsonObject, type JsonObject } from '../../text/json.ts';
import type { AssistantPart, ModelCall, ModelTool, PromptMessage } from '../model.ts';
import { readSettings } from './read-settings.ts';
import { sentToolName, toolInputObject } from './tool-input.ts';
import { userText } from './user-text.ts';

/** The name in a part's metadata under which this wire keeps what the server needs back. */
export const metadataKey = 'openai-compatible';

/** The body of a `/chat/completions` call to this host. `provider_options` are added to it unchanged. */
export function chatBody(name: string, call: ModelCall, host: string): string {
  const settings = readSettings(metadataKey, call.settings);
  const stream = settings.providerOptions.stream ?? call.whole !== true;
  return JSON.stringify({
    model: name,
    messages: chatMessages(call, host),
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
interface ChatAssistant extends Thoughts {
  role: 'assistant';
  content: string | null;
  reasoning_details?: JsonObject[] | undefined;
  tool_calls?: object[] | undefined;
}
/** Under the name under which the server sent them. */
interface Thoughts {
  reasoning?: string;
  reasoning_content?: string;
}
type ToolCallPart = Extract<AssistantPart, { type: 'tool-call' }>;

function chatMessages(call: ModelCall, host: string): ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (call.instructions !== '') messages.push({ role: 'system', content: call.instructions });
  const hasTools = call.tools.length > 0;
  // With tools, DeepSeek V4 insists on the thoughts of all turns. Without, other models refuse or ignore those of earlier turns.
  const thoughtsFrom = hasTools ? 0 : call.messages.findLastIndex((message) => message.role === 'user');
  for (const [index, message] of call.messages.entries()) addMessage(messages, message, host, index >= thoughtsFrom);
  if (hasTools) addMissingThoughts(messages);
  return messages;
}

/** Where a server wants its thoughts back, it wants some with every answer, even if it did not think or another model answered. */
function addMissingThoughts(messages: readonly ChatMessage[]): void {
  const answers = messages.filter((message) => message.role === 'assistant');
  if (!answers.some((answer) => answer.reasoning_content !== undefined)) return;
  for (const answer of answers) answer.reasoning_content ??= ' ';
}

function addMessage(messages: ChatMessage[], message: PromptMessage, host: string, withThoughts: boolean): void {
  switch (message.role) {
    case 'user':
      addUser(messages, userText(message));
      return;
    case 'assistant': {
      const assistant = chatAssistant(message.parts, host, withThoughts);
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

function chatAssistant(parts: readonly AssistantPart[], host: string, withThoughts: boolean): ChatAssistant | undefined {
  let text = '';
  const thoughts: Thoughts = {};
  const calls: ToolCallPart[] = [];
  for (const part of parts) {
    if (part.type === 'text') text += part.text;
    else if (part.type === 'tool-call') calls.push(part);
    else if (withThoughts) addThought(thoughts, part, host);
  }
  // Providers refuse a blank text.
  const content = text.trim() === '' ? null : text;
  if (content === null && calls.length === 0) return undefined;
  if (calls.length === 0) return { role: 'assistant', content, ...thoughts };
  const tool_calls = calls.map((call) => chatCall(call, host));
  return { role: 'assistant', content, ...thoughts, reasoning_details: reasoningDetails(calls, host), tool_calls };
}

/** Models that think between tool calls need their thoughts back. */
function addThought(thoughts: Thoughts, part: Extract<AssistantPart, { type: 'reasoning' }>, host: string): void {
  const field = ownMetadata(part, host)?.field;
  if (field === 'reasoning' || field === 'reasoning_content') thoughts[field] = (thoughts[field] ?? '') + part.text;
}

/** OpenRouter refuses calls whose thoughts were signed or encrypted without these, and entries of a call must name it as we do. */
function reasoningDetails(calls: readonly ToolCallPart[], host: string): JsonObject[] | undefined {
  const details = calls.flatMap((call) => {
    const kept = ownMetadata(call, host)?.reasoning_details;
    return Array.isArray(kept) ? kept.filter(isJsonObject) : [];
  });
  if (details.length === 0) return undefined;
  const sentIds = new Map(calls.map((call) => [ownMetadata(call, host)?.id, sentCallId(call.callId)]));
  return details.map((entry) => (typeof entry.id === 'string' ? { ...entry, id: sentIds.get(entry.id) ?? entry.id } : entry));
}

/** Undefined if it is of another host, which may have fields that this one refuses. What was kept before hosts were recorded names none. */
function ownMetadata(part: { providerMetadata?: Record<string, unknown> }, host: string): JsonObject | undefined {
  const own = part.providerMetadata?.[metadataKey];
  return isJsonObject(own) && (own.host === undefined || own.host === host) ? own : undefined;
}

function chatCall(part: ToolCallPart, host: string): object {
  return {
    id: sentCallId(part.callId),
    type: 'function',
    function: { name: sentToolName(part.tool), arguments: JSON.stringify(toolInputObject(part.input)) },
    // Gemini puts a signature of the call here, and refuses a call without it.
    extra_content: ownMetadata(part, host)?.extra_content,
  };
}

/** The random end of an id of ours: Mistral takes exactly nine letters and digits. */
function sentCallId(callId: string): string {
  return callId.slice(-9);
}

function chatTool({ name, description, inputSchema }: ModelTool): object {
  return { type: 'function', function: { name, description, parameters: inputSchema } };
}
