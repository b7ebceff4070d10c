import { noUsage, type Usage } from '../../session/usage.ts';
import { growingSum } from '../../work/growing-sum.ts';
import type { ModelCall, PromptMessage } from '../model.ts';

/** An estimate of four characters a token: close enough for budgets and limits when no provider counts, and always the same. */
export function countTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

/** Whether a count that a provider reports can be used: a negative one would add to the budget, and others could not be stored. */
export function isTokenCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 31;
}

const lengthOf = growingSum(messageLength);

/** Only adds up lengths, and each only once while a prompt grows, so that a long conversation costs no more than a short one. */
export function promptTokens({ instructions, messages }: ModelCall): number {
  return countTokens(instructions.length + lengthOf(messages));
}

/** What a call has used, where the provider does not say. */
export function estimateUsage(call: ModelCall): Usage {
  return { input: promptTokens(call), output: countTokens(call.received), cachedInput: 0 };
}

/**
 * What a call that did not finish has used. Providers report usage only at the end of an answer, so it is estimated from what
 * arrived: nothing, if the provider refused the call or broke off before it began to answer. If we stopped it, its input counts:
 * the provider may have read all of it, and charges for that.
 */
export function unfinishedUsage(call: ModelCall, isStopped: boolean): Usage {
  if (call.received === 0 && !isStopped) return noUsage;
  return estimateUsage(call);
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

/** The number of characters in the names and values of a tool's input. */
export function valueLength(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 4;
  let characters = 0;
  for (const [key, inner] of Object.entries(value)) characters += key.length + valueLength(inner);
  return characters;
}
