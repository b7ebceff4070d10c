import type { ReleaseConfig, SubAgentConfig } from '../release-config.ts';
import type { Entry, SessionState } from '../session/state.ts';
import { noUsage, type Usage } from '../session/usage.ts';
import type { Model } from './model.ts';
import { buildPrompt, estimateTokens } from './prompt.ts';
import type { TurnYield } from './turn-world.ts';

/** Room left for the answer: the prompt may fill this part of the model's context. */
const fullShare = 0.8;
/** How far it is cut back then, so that it is not cut again at once and the prompt cache holds for a while. */
const keptShare = 0.4;

/** When the prompt nears the context limit, leaves the oldest turns out, or puts a summary in their place, and says so in the log. */
export async function* condense(
  state: SessionState,
  agent: SubAgentConfig,
  model: Model,
  settings: ReleaseConfig['context'],
  signal: AbortSignal,
): AsyncGenerator<TurnYield, void, void> {
  const limit = settings.limit_tokens ?? model.contextLimit;
  if (state.entries.length < 3 || estimateTokens(state.entries) <= limit * fullShare) return;
  const throughSeq = findCut(state.entries, limit * keptShare);
  if (throughSeq === undefined) return;
  const made = settings.overflow === 'summarize' ? await summarize(state, throughSeq, agent, model, signal) : { summary: null };
  yield { type: 'commit', events: [{ type: 'context-condensed', data: { throughSeq, ...made } }] };
}

/** The last place before a user's message from where on the rest fits; never inside the newest turn. */
function findCut(entries: readonly Entry[], keptTokens: number): number | undefined {
  const starts = entries.flatMap((entry, index) => (entry.type === 'user' && index > 0 ? [index] : []));
  const fitting = starts.find((index) => estimateTokens(entries.slice(index)) <= keptTokens) ?? starts.at(-1);
  return fitting === undefined ? undefined : entries[fitting - 1]?.seq;
}

async function summarize(
  state: SessionState,
  throughSeq: number,
  agent: SubAgentConfig,
  model: Model,
  signal: AbortSignal,
): Promise<{ summary: string; usage: Usage }> {
  const old: SessionState = { ...state, entries: state.entries.filter((entry) => entry.seq <= throughSeq) };
  const request = 'Summarise the conversation so far for yourself: facts, decisions, open questions, names and file paths. Be brief.';
  const messages = [...buildPrompt(old), { role: 'user' as const, text: request }];
  let summary = '';
  let usage = noUsage;
  const call = { instructions: agent.instructions, messages, tools: [], thinking: false, settings: {} };
  for await (const part of model.stream(call, signal)) {
    if (part.type === 'text-delta') summary += part.text;
    if (part.type === 'finish') usage = part.usage;
  }
  return { summary, usage };
}
