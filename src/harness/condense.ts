import type { Entry } from '../session/state.ts';
import { addUsage, noUsage, type Usage } from '../session/usage.ts';
import { storable } from '../text/storable.ts';
import { growingSum } from '../work/growing-sum.ts';
import { type Model, type ModelCall, ModelError } from './model.ts';
import { countTokens, unfinishedUsage } from './models/estimate-tokens.ts';
import { buildPrompt, entryLength, isSilent } from './prompt.ts';
import { maxAttempts, retryDelay } from './retry.ts';
import type { ModelStep, TurnYield } from './turn-world.ts';

/** The part of the model's context that the prompt may fill; the rest is left for the answer. */
const fullShare = 0.8;
/** The part that it fills after a cut: small enough that the next cut, which makes the provider's prompt cache useless, is far off. */
const keptShare = 0.4;

const lengthOf = growingSum(entryLength);

/**
 * When the prompt nears the context limit, leaves out the oldest turns, or replaces them with a summary, and records that in the log.
 * Tokens are only estimated: `isRefused` says that the model found the prompt too long, whatever we take its limit to be. Returns
 * whether the prompt was cut.
 */
export async function* condense(step: ModelStep, isRefused = false): AsyncGenerator<TurnYield, boolean, void> {
  const { state, model } = step;
  const settings = step.world.release.context;
  const characters = lengthOf(state.entries);
  const limit = isRefused ? countTokens(characters) : (settings.limit_tokens ?? model.contextLimit);
  if (countTokens(characters) <= limit * fullShare) return false;
  const throughSeq = findCut(state.entries, characters, limit * keptShare);
  if (throughSeq === undefined) return false;
  const made = settings.overflow === 'summarize' ? await summarize(step, throughSeq) : { summary: null };
  yield { type: 'commit', events: [{ type: 'context-condensed', data: { throughSeq, ...made } }] };
  return true;
}

/** The last seq to leave out: before the first user message from which on everything fits, or else before the last user message. */
function findCut(entries: readonly Entry[], characters: number, keptTokens: number): number | undefined {
  let cut: number | undefined;
  let previous: Entry | undefined;
  let rest = characters;
  for (const entry of entries) {
    if (entry.type === 'user' && !isSilent(entry) && previous !== undefined) {
      cut = previous.seq;
      if (countTokens(rest) <= keptTokens) break;
    }
    rest -= entryLength(entry);
    previous = entry;
  }
  return cut;
}

async function summarize(
  { state, turn, agent, model, world, signal }: ModelStep,
  throughSeq: number,
): Promise<{ summary: string | null; usage?: Usage }> {
  const text = 'Summarise the conversation so far for yourself: facts, decisions, open questions, names and file paths. Be brief.';
  const request: Entry = { seq: throughSeq, type: 'user', message: { messageId: '', text } };
  const past = state.entries.filter((entry) => entry.seq <= throughSeq).flatMap(asWords);
  const messages = buildPrompt({ ...state, entries: [...past, request] });
  const call = { instructions: agent.instructions, messages, tools: [], thinking: false, settings: {}, received: 0 };
  for (let attempt = 1; ; attempt += 1) {
    call.received = 0;
    signal.throwIfAborted();
    try {
      return await ask(model, call, signal);
    } catch (error) {
      // The event has only what the summary itself took, and there is none if no attempt succeeds.
      turn.usage = addUsage(turn.usage, unfinishedUsage(call, signal.aborted));
      if (!(error instanceof ModelError)) throw error;
      // Even what is to be summarised is too long. It is left out without a summary: otherwise every later turn would fail here.
      if (error.code === 'context_length_exceeded') return { summary: state.summary ?? null };
      if (!error.retryable || attempt === maxAttempts) throw error;
      await world.sleep(retryDelay(attempt, error.retryAfterSeconds), signal);
    }
  }
}

/** Calls and results as text, and no reasoning: some providers refuse calls when no tools are given, and reasoning without its call. */
function asWords(entry: Entry): Entry[] {
  const { seq } = entry;
  switch (entry.type) {
    case 'call':
      return [{ seq, type: 'text', text: `[called ${entry.tool} with ${JSON.stringify(entry.input ?? {})}]\n` }];
    case 'result':
      return [{ seq, type: 'text', text: `[${entry.tool} ${entry.isError ? 'failed' : 'answered'}: ${entry.output}]\n` }];
    case 'reasoning':
      return [];
    default:
      return [entry];
  }
}

async function ask(model: Model, call: ModelCall, signal: AbortSignal): Promise<{ summary: string; usage: Usage }> {
  let summary = '';
  let usage = noUsage;
  for await (const part of model.stream(call, signal)) {
    if (part.type === 'text-delta') summary += part.text;
    if (part.type === 'finish') usage = part.usage;
  }
  return { summary: storable(summary), usage };
}
