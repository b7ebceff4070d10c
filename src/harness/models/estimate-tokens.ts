import type { ModelCall, PromptMessage } from '../model.ts';

/** Four characters make a token: near enough for budgets and limits where no provider counts, and the same every time. */
export function countTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

/** Of one answer, ten times what any model gives: whoever sends more wants to fill our memory. */
export const maxAnswerCharacters = 4 * 2 ** 20;
/** Some packages keep an event until it is whole; and an answer of `maxAnswerCharacters` is far shorter, one event a word. */
export const maxStreamBytes = 128 * 2 ** 20;
/** Calls and blocks of reasoning in one answer: each is written down by itself. */
export const maxAnswerParts = 1_000;

/** A count as a provider may report one. What is none would be taken off the budget, or would not be stored at all. */
export function isTokenCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 31;
}

/** Adds up lengths and serialises nothing, so that a long conversation costs little more than a short one. */
export function promptTokens(call: ModelCall): number {
  let characters = call.instructions.length;
  for (const message of call.messages) characters += messageLength(message);
  return countTokens(characters);
}

function messageLength(message: PromptMessage): number {
  let characters = 0;
  switch (message.role) {
    case 'user':
      return message.text.length;
    case 'assistant':
      for (const part of message.parts) characters += part.type === 'tool-call' ? valueLength(part.input) : part.text.length;
      return characters;
    case 'tool':
      for (const result of message.results) characters += result.output.length;
      return characters;
  }
}

/** How many characters the names and values in a tool's input have. */
export function valueLength(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 4;
  let characters = 0;
  for (const [key, inner] of Object.entries(value)) characters += key.length + valueLength(inner);
  return characters;
}
