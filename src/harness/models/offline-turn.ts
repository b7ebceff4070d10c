import type { PromptMessage, ToolResultPart } from '../model.ts';

/** What the last user message asked, and the tool calls that were made since. */
export interface TurnSoFar {
  text: string;
  files: readonly string[];
  /** How many user messages the conversation has. Counted on request: few answers say it. */
  number(): number;
  calls: { tool: string; input: unknown; result: ToolResultPart | undefined }[];
}

export function readTurn(messages: readonly PromptMessage[]): TurnSoFar {
  const start = messages.findLastIndex((message) => message.role === 'user');
  const asked = messages[start];
  const { text, files = [] } = asked?.role === 'user' ? asked : { text: '' };
  const turn: TurnSoFar = { text, files, number: () => messages.filter(beganTurn).length, calls: [] };
  const results = new Map<string, ToolResultPart>();
  for (let index = messages.length - 1; index > start; index -= 1) {
    const message = messages[index];
    if (message?.role === 'tool') for (const result of message.results) results.set(result.callId, result);
  }
  for (let index = start + 1; index < messages.length; index += 1) {
    const message = messages[index];
    if (message?.role !== 'assistant') continue;
    for (const part of message.parts) {
      if (part.type === 'tool-call') turn.calls.push({ tool: part.tool, input: part.input, result: results.get(part.callId) });
    }
  }
  return turn;
}

function beganTurn(message: PromptMessage): boolean {
  return message.role === 'user' && message.told !== true;
}
