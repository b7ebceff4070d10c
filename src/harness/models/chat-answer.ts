import type { Usage } from '../../session/usage.ts';
import { isJsonObject, isRecord, type JsonObject } from '../../text/json.ts';
import type { ModelCall, ModelPart } from '../model.ts';
import { metadataKey } from './chat-request.ts';
import { estimateUsage, isTokenCount, valueLength } from './estimate-tokens.ts';
import { type Called, cutOff, failureOf, maxAnswerCharacters, maxAnswerParts, readFailure, tooLong } from './model-failure.ts';
import { ReasoningDetails } from './reasoning-details.ts';
import { isTooDeep, parseToolInput } from './tool-input.ts';

interface OpenCall {
  index: unknown;
  id: string | undefined;
  name: string;
  arguments: string;
  extra: JsonObject | undefined;
}

/**
 * Puts one answer of this host together from its chunks. `takeAll` returns the parts that the chunks complete, and the failure that came after
 * them, if any; `finish` returns the last parts, or throws `ModelError`.
 */
export function createChatAnswer(called: Called, call: ModelCall, host: string) {
  const calls: OpenCall[] = [];
  const pattern = new ChunkPattern();
  const details = new ReasoningDetails();
  let reasoningField: string | undefined;
  let usage: Record<string, unknown> | undefined;
  /** A finish reason came: only the usage may follow. */
  let hasEnded = false;
  let isDone = false;

  function takeAll(chunks: readonly string[]): { parts: ModelPart[]; failure?: unknown } {
    const parts: ModelPart[] = [];
    try {
      for (const data of chunks) {
        const text = pattern.contentOf(data);
        if (text !== undefined) takeText(text, parts);
        else if (data === '[DONE]') isDone = true;
        else takeChunk(JSON.parse(data), parts, data);
      }
      if (call.received + details.characters > maxAnswerCharacters) throw tooLong(called);
      const last = parts.at(-1);
      if (isDone && last?.type === 'text-delta') last.isLast = true;
      return { parts };
    } catch (failure) {
      return { parts, failure };
    }
  }

  function takeChunk(chunk: unknown, parts: ModelPart[], data: string): void {
    if (!isRecord(chunk)) return;
    if (chunk.error !== undefined && chunk.error !== null) throw failureOf(called, readFailure(chunk));
    if (isRecord(chunk.usage)) usage = chunk.usage;
    const choice: unknown = Array.isArray(chunk.choices) ? chunk.choices[0] : undefined;
    if (!isRecord(choice)) return;
    // An answer in one piece: it is complete, and its calls have no index, so each is given one. So is what came with its thoughts.
    if (isRecord(choice.message)) isDone = true;
    const delta = isRecord(choice.message) ? numbered(choice.message) : choice.delta;
    if (isRecord(delta)) takeDelta(delta, parts);
    const reason = choice.finish_reason;
    // OpenRouter puts the failure of the provider behind it here.
    if (reason === 'error') throw failureOf(called, readFailure(choice));
    // A chunk that has neither usage nor a finish reason becomes the pattern for those that follow. Some servers write no reason as a text.
    if (typeof reason === 'string' && reason !== '' && reason !== 'null') hasEnded = true;
    else if (isRecord(delta) && !isRecord(chunk.usage)) pattern.learn(data, delta);
  }

  function takeDelta(delta: Record<string, unknown>, parts: ModelPart[]): void {
    for (const field of ['reasoning_content', 'reasoning']) {
      const thought = delta[field];
      if (typeof thought !== 'string' || thought === '') continue;
      reasoningField = field;
      call.received += thought.length;
      addText(parts, 'reasoning-delta', thought);
      // Some servers send the same thought under both names.
      break;
    }
    if (Array.isArray(delta.reasoning_details)) {
      for (const piece of delta.reasoning_details) if (isJsonObject(piece) && !isTooDeep(piece)) details.add(piece);
    }
    const text = textOf(delta.content) || textOf(delta.refusal);
    if (text !== '') takeText(text, parts);
    if (Array.isArray(delta.tool_calls)) {
      endReasoning(parts);
      for (const piece of delta.tool_calls) if (isRecord(piece)) takeCallPiece(piece);
    }
  }

  function takeText(text: string, parts: ModelPart[]): void {
    endReasoning(parts);
    call.received += text.length;
    addText(parts, 'text-delta', text);
  }

  function takeCallPiece(piece: Record<string, unknown>): void {
    const said = isRecord(piece.function) ? piece.function : {};
    const id = typeof piece.id === 'string' && piece.id !== '' ? piece.id : undefined;
    let open = calls.at(-1);
    if (piece.index !== undefined) open = calls.findLast((candidate) => candidate.index === piece.index);
    const name = typeof said.name === 'string' ? said.name : '';
    // A name with a new id, under a used index or without any, is another call. Without a name it is more of the same: some servers give
    // each piece an id of its own.
    if (open === undefined || (name !== '' && id !== undefined && id !== open.id)) {
      // Checked here already, because each piece is searched for among all calls.
      if (calls.length === maxAnswerParts) throw tooLong(called);
      open = { index: piece.index, id, name: '', arguments: '', extra: undefined };
      calls.push(open);
    }
    open.id ??= id;
    if (open.name === '') {
      open.name = name;
      call.received += name.length;
    }
    if (typeof said.arguments === 'string') open.arguments += said.arguments;
    else if (isRecord(said.arguments)) open.arguments = JSON.stringify(said.arguments);
    call.received += valueLength(said.arguments ?? '');
    if (isJsonObject(piece.extra_content) && !isTooDeep(piece.extra_content)) {
      open.extra = piece.extra_content;
      call.received += valueLength(open.extra);
    }
  }

  function endReasoning(parts: ModelPart[]): void {
    if (reasoningField === undefined) return;
    parts.push({ type: 'reasoning-end', providerMetadata: { [metadataKey]: { host, field: reasoningField } } });
    reasoningField = undefined;
  }

  function finish(): ModelPart[] {
    if (!hasEnded && !isDone) throw cutOff(called);
    const parts: ModelPart[] = [];
    endReasoning(parts);
    const named = new Set(details.entries.map((entry) => entry.id));
    for (const [position, { id, name, arguments: text, extra }] of calls.entries()) {
      const own: JsonObject = { host };
      if (extra !== undefined) own.extra_content = extra;
      // All of them with the first call, to stay in their order, and the id by which they name a call with that call.
      if (position === 0 && details.entries.length > 0) own.reasoning_details = details.entries;
      if (id !== undefined && named.has(id)) own.id = id;
      const part: ModelPart = { type: 'tool-call', tool: name, input: parseToolInput(text) };
      parts.push(Object.keys(own).length === 1 ? part : { ...part, providerMetadata: { [metadataKey]: own } });
    }
    parts.push({ type: 'finish', usage: toUsage(usage, call) });
    return parts;
  }

  return { takeAll, finish, isComplete: () => isDone };
}

/**
 * Most chunks of an answer differ only in their text. A chunk that begins and ends like the last one that was parsed, with no quote and
 * no escape in between, differs in nothing else and need not be parsed: that saves a third of the cost of reading a stream.
 */
class ChunkPattern {
  private before = '';
  private after = '';

  learn(data: string, delta: Record<string, unknown>): void {
    const { content } = delta;
    const hasMore = Object.entries(delta).some(([key, value]) => key !== 'content' && key !== 'role' && value !== null);
    if (typeof content !== 'string' || content === '' || hasMore) return;
    const quoted = `"content":${JSON.stringify(content)}`;
    const at = data.indexOf(quoted);
    // With `"content"` in more than one place, it is not clear which one is that of the delta.
    if (at < 0 || data.indexOf('"content"', at + 1) >= 0 || data.lastIndexOf('"content"', at - 1) >= 0) return;
    this.before = data.slice(0, at + '"content":"'.length);
    this.after = data.slice(at + quoted.length - 1);
  }

  contentOf(data: string): string | undefined {
    const { before, after } = this;
    const end = data.length - after.length;
    if (before === '' || end <= before.length) return undefined;
    // Slices compare five times as fast as `startsWith` and `endsWith` do.
    if (data.slice(0, before.length) !== before || data.slice(end) !== after) return undefined;
    const content = data.slice(before.length, end);
    return needsParsing.test(content) ? undefined : content;
  }
}

const needsParsing = /["\\\p{Cc}]/u;

function numbered(message: Record<string, unknown>): Record<string, unknown> {
  const { tool_calls: calls, reasoning_details: details } = message;
  return {
    ...message,
    tool_calls: Array.isArray(calls) ? calls.map((call, index) => (isRecord(call) ? { ...call, index } : call)) : calls,
    reasoning_details: Array.isArray(details) ? details.map((entry, index) => (isRecord(entry) ? { index, ...entry } : entry)) : details,
  };
}

/** Some servers send a list of parts, not all of which are text. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isRecord(part) && part.type === 'text' && typeof part.text === 'string' ? part.text : '')).join('');
}

/** Text of chunks that arrived together is joined. */
function addText(parts: ModelPart[], type: 'text-delta' | 'reasoning-delta', text: string): void {
  const last = parts.at(-1);
  if (last?.type === type) last.text += text;
  else parts.push({ type, text });
}

function toUsage(usage: Record<string, unknown> | undefined, call: ModelCall): Usage {
  const input = usage?.prompt_tokens;
  const output = usage?.completion_tokens;
  const total = usage?.total_tokens;
  if (!isTokenCount(input) || !isTokenCount(output)) return estimateUsage(call);
  const details = usage?.prompt_tokens_details;
  const cached = isRecord(details) ? details.cached_tokens : usage?.prompt_cache_hit_tokens;
  return {
    input,
    // Some providers count the model's thoughts only in the total.
    output: isTokenCount(total) ? Math.max(output, total - input) : output,
    cachedInput: isTokenCount(cached) ? Math.min(cached, input) : 0,
  };
}
