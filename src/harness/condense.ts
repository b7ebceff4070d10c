import type { Entry } from '../session/state.ts';
import { noUsage, type Usage } from '../session/usage.ts';
import { storable } from '../storable.ts';
import { type Model, type ModelCall, ModelError } from './model.ts';
import { countTokens } from './models/estimate-tokens.ts';
import { buildPrompt, entryLength, isHeard } from './prompt.ts';
import { maxAttempts, retryDelay } from './retry.ts';
import type { ModelStep, TurnYield } from './turn-world.ts';

/** Room left for the answer: the prompt may fill this part of the model's context. */
const fullShare = 0.8;
/** How far it is cut back then, so that it is not cut again at once and the prompt cache holds for a while. */
const keptShare = 0.4;

/**
 * When the prompt nears the context limit, leaves the oldest turns out, or puts a summary in their place, and says so in the log.
 * Tokens are only estimated: with `isTooLong` the model has refused the prompt, whatever its limit is. Returns whether it was cut.
 */
export async function* condense(step: ModelStep, isTooLong = false): AsyncGenerator<TurnYield, boolean, void> {
  const { state, model } = step;
  const settings = step.world.release.context;
  const characters = state.entries.reduce((sum, entry) => sum + entryLength(entry), 0);
  const limit = isTooLong ? countTokens(characters) : (settings.limit_tokens ?? model.contextLimit);
  if (countTokens(characters) <= limit * fullShare) return false;
  const throughSeq = findCut(state.entries, characters, limit * keptShare);
  if (throughSeq === undefined) return false;
  const made = settings.overflow === 'summarize' ? await summarize(step, throughSeq) : { summary: null };
  yield { type: 'commit', events: [{ type: 'context-condensed', data: { throughSeq, ...made } }] };
  return true;
}

/** Before the first of the users' messages from which on all fits, else before the last: never inside the newest turn. */
function findCut(entries: readonly Entry[], characters: number, keptTokens: number): number | undefined {
  let cut: number | undefined;
  let previous: Entry | undefined;
  let rest = characters;
  for (const entry of entries) {
    if (entry.type === 'user' && !isHeard(entry) && previous !== undefined) {
      cut = previous.seq;
      if (countTokens(rest) <= keptTokens) break;
    }
    rest -= entryLength(entry);
    previous = entry;
  }
  return cut;
}

async function summarize(
  { state, agent, model, world, signal }: ModelStep,
  throughSeq: number,
): Promise<{ summary: string | null; usage?: Usage }> {
  const text = 'Summarise the conversation so far for yourself: facts, decisions, open questions, names and file paths. Be brief.';
  const request: Entry = { seq: throughSeq, type: 'user', message: { messageId: '', text } };
  const past = state.entries.filter((entry) => entry.seq <= throughSeq).flatMap(asWords);
  const messages = buildPrompt({ ...state, entries: [...past, request] });
  const call = { instructions: agent.instructions, messages, tools: [], thinking: false, settings: {} };
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask(model, call, signal);
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      // A single turn may be more than the model takes. It is left out: every later turn would fail here.
      if (error.code === 'context_length_exceeded') return { summary: state.summary ?? null };
      if (!error.retryable || attempt === maxAttempts) throw error;
      await world.sleep(retryDelay(attempt, error.retryAfterSeconds), signal);
    }
  }
}

/** Some providers refuse calls and their results where no tools are given, and reasoning without the call that it led to. */
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
