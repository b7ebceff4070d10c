import type { Entry, SessionState } from '../session/state.ts';
import type { AssistantPart, PromptMessage, ToolResultPart } from './model.ts';
import { valueLength } from './models/estimate-tokens.ts';

interface Prompt {
  messages: PromptMessage[];
  /** How many entries it was made from. */
  taken: number;
  /** Those of them that are not among the messages yet. */
  silent: Entry[];
}

/** By the list of entries, which only grows at its end: condensing makes another list. */
const prompts = new WeakMap<readonly Entry[], Prompt>();

/**
 * The conversation as the model is shown it. Built from the log alone and always in the same way, so that each prompt begins with the
 * one before it, which providers have in their prompt cache. It is kept and added to: a turn costs only as much as its own entries.
 */
export function buildPrompt({ entries, summary }: SessionState): readonly PromptMessage[] {
  const prompt = prompts.get(entries) ?? { messages: summaryMessages(summary), taken: 0, silent: [] };
  prompts.set(entries, prompt);
  for (const entry of entries.slice(prompt.taken)) takeEntry(prompt, entry);
  prompt.taken = entries.length;
  closeOpenCalls(prompt.messages);
  return prompt.messages;
}

function summaryMessages(summary: string | undefined): PromptMessage[] {
  return summary === undefined ? [] : [{ role: 'user', text: `Summary of the conversation before this point:\n${summary}` }];
}

function takeEntry({ messages, silent }: Prompt, entry: Entry): void {
  if (isSilent(entry)) {
    silent.push(entry);
    return;
  }
  // Silent messages wait for the next one that a turn answers: in the middle of a turn they could come between a call and its result,
  // and the model would take them for the question.
  if (entry.type === 'user') for (const earlier of silent.splice(0)) addEntry(messages, earlier);
  addEntry(messages, entry);
}

/** A message between participants that no turn answers. */
export function isSilent(entry: Entry): boolean {
  return entry.type === 'user' && entry.message.silent === true;
}

/** Roughly how many characters an entry adds to the prompt. */
export function entryLength(entry: Entry): number {
  switch (entry.type) {
    case 'user':
      return (entry.message.context ?? []).reduce((sum, { text }) => sum + text.length, entry.message.text.length);
    case 'call':
      return valueLength(entry.input);
    case 'result':
      return entry.output.length;
    case 'text':
    case 'reasoning':
      return entry.text.length;
  }
}

function addEntry(messages: PromptMessage[], entry: Entry): void {
  switch (entry.type) {
    case 'user': {
      closeTurn(messages);
      for (const earlier of entry.message.context ?? []) {
        if (earlier.role === 'assistant' && messages.length === 0) messages.push(opening);
        if (earlier.role === 'assistant') messages.push({ role: 'assistant', parts: [{ type: 'text', text: earlier.text }] });
        else if (earlier.role === 'system') messages.push({ role: 'user', text: `[system] ${earlier.text}`, told: true });
        else messages.push({ role: 'user', text: earlier.text });
      }
      const { text, participantName, files } = entry.message;
      messages.push({
        role: 'user',
        text,
        ...(participantName === undefined ? {} : { name: participantName }),
        ...(files === undefined ? {} : { files }),
        ...(isSilent(entry) ? { told: true } : {}),
      });
      return;
    }
    case 'text':
      addPart(messages, { type: 'text', text: entry.text });
      return;
    case 'reasoning':
      addPart(messages, {
        type: 'reasoning',
        text: entry.text,
        ...(entry.providerMetadata === undefined ? {} : { providerMetadata: entry.providerMetadata }),
      });
      return;
    case 'call':
      addPart(messages, {
        type: 'tool-call',
        callId: entry.callId,
        tool: entry.tool,
        input: entry.input,
        ...(entry.providerMetadata === undefined ? {} : { providerMetadata: entry.providerMetadata }),
      });
      return;
    case 'result':
      addResult(messages, { callId: entry.callId, tool: entry.tool, output: entry.output, isError: entry.isError });
      return;
  }
}

/** Before a greeting that a client had its user read: strict servers, Anthropic's and Google's among them, want a user to begin. */
const opening: PromptMessage = { role: 'user', text: '[The conversation begins here.]', told: true };

function addPart(messages: PromptMessage[], part: AssistantPart): void {
  const last = messages.at(-1);
  if (last?.role === 'assistant') {
    last.parts.push(part);
    return;
  }
  closeOpenCalls(messages);
  messages.push({ role: 'assistant', parts: [part] });
}

function addResult(messages: PromptMessage[], result: ToolResultPart): void {
  const last = messages.at(-1);
  if (last?.role === 'tool') last.results.push(result);
  else messages.push({ role: 'tool', results: [result] });
}

/**
 * Lets a turn that ended on a tool's result end with words. Strict servers want no user right after a tool, and Anthropic would take what
 * follows for the same turn, in which Claude up to 4.5 refuses to think unless it has from its start.
 */
function closeTurn(messages: PromptMessage[]): void {
  closeOpenCalls(messages);
  const isAfterTool = messages.findLast(saysSomething)?.role === 'tool';
  if (isAfterTool) messages.push({ role: 'assistant', parts: [{ type: 'text', text: '[The turn ended here.]' }] });
}

/** An answer that was stopped in its thoughts is sent to no provider. */
function saysSomething(message: PromptMessage): boolean {
  if (message.role !== 'assistant') return true;
  return message.parts.some((part) => part.type === 'tool-call' || (part.type === 'text' && part.text.trim() !== ''));
}

/** Adds a result to each call of the last step that has none, because its turn failed: providers refuse a call without a result. */
function closeOpenCalls(messages: PromptMessage[]): void {
  const last = messages.at(-1);
  const step = last?.role === 'tool' ? messages.at(-2) : last;
  if (step?.role !== 'assistant') return;
  // A set, because a step may have a thousand of each.
  const answered = new Set(last?.role === 'tool' ? last.results.map((result) => result.callId) : []);
  for (const part of step.parts) {
    if (part.type !== 'tool-call' || answered.has(part.callId)) continue;
    addResult(messages, { callId: part.callId, tool: part.tool, output: 'The call did not finish.', isError: true });
  }
}
