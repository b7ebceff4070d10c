import type { ReleaseConfig, SubAgentConfig } from '../release-config.ts';
import type { Entry, SessionState } from '../session/state.ts';
import type { AssistantPart, PromptMessage, ToolResultPart } from './model.ts';
import { valueLength } from './models/estimate-tokens.ts';

/**
 * The conversation as the model is shown it. Built from the log alone and always in the same way, so that each prompt begins with the
 * one before it, which providers have in their prompt cache.
 */
export function buildPrompt(state: SessionState): PromptMessage[] {
  const messages: PromptMessage[] = [];
  if (state.summary !== undefined)
    messages.push({ role: 'user', text: `Summary of the conversation before this point:\n${state.summary}` });
  const silent: Entry[] = [];
  for (const entry of state.entries) {
    if (isSilent(entry)) {
      silent.push(entry);
      continue;
    }
    // Silent messages wait for the next one that a turn answers: in the middle of a turn they could come between a call and its result,
    // and the model would take them for the question.
    if (entry.type === 'user') for (const earlier of silent.splice(0)) addEntry(messages, earlier);
    addEntry(messages, entry);
  }
  closeOpenCalls(messages);
  return messages;
}

/** A message between participants that no turn answers. */
export function isSilent(entry: Entry): boolean {
  return entry.type === 'user' && entry.message.silent === true;
}

export function subAgentOf(release: ReleaseConfig, name: string): SubAgentConfig {
  return release.agents.find((agent) => agent.name === name) ?? { name, instructions: release.instructions };
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
      for (const earlier of entry.message.context ?? []) {
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
      assistantParts(messages).push({ type: 'text', text: entry.text });
      return;
    case 'reasoning':
      assistantParts(messages).push({
        type: 'reasoning',
        text: entry.text,
        ...(entry.providerMetadata === undefined ? {} : { providerMetadata: entry.providerMetadata }),
      });
      return;
    case 'call':
      assistantParts(messages).push({
        type: 'tool-call',
        callId: entry.callId,
        tool: entry.tool,
        input: entry.input,
        ...(entry.providerMetadata === undefined ? {} : { providerMetadata: entry.providerMetadata }),
      });
      return;
    case 'result':
      toolResults(messages).push({ callId: entry.callId, tool: entry.tool, output: entry.output, isError: entry.isError });
      return;
  }
}

function assistantParts(messages: PromptMessage[]): AssistantPart[] {
  const last = messages.at(-1);
  if (last?.role === 'assistant') return last.parts;
  const parts: AssistantPart[] = [];
  messages.push({ role: 'assistant', parts });
  return parts;
}

function toolResults(messages: PromptMessage[]): ToolResultPart[] {
  const last = messages.at(-1);
  if (last?.role === 'tool') return last.results;
  const results: ToolResultPart[] = [];
  messages.push({ role: 'tool', results });
  return results;
}

/** Adds a result to each call that a failed turn left without one: providers refuse a call without a result. */
function closeOpenCalls(messages: PromptMessage[]): void {
  for (let index = 0; index < messages.length; index += 1) {
    const message = messages[index];
    if (message?.role !== 'assistant') continue;
    const calls = message.parts.filter((part) => part.type === 'tool-call');
    if (calls.length === 0) continue;
    const following = messages[index + 1];
    const results = following?.role === 'tool' ? following.results : [];
    // A set, because a step may have a thousand of each.
    const answered = new Set(results.map((result) => result.callId));
    for (const call of calls) {
      if (answered.has(call.callId)) continue;
      results.push({ callId: call.callId, tool: call.tool, output: 'The call did not finish.', isError: true });
    }
    if (following?.role !== 'tool') messages.splice(index + 1, 0, { role: 'tool', results });
  }
}
