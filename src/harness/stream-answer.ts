import { modelConfigOf } from '../release-config.ts';
import type { TurnState } from '../session/state.ts';
import { addUsage, noUsage, type Usage } from '../session/usage.ts';
import { storable, storableJson } from '../text/storable.ts';
import { type Answer, Draft } from './draft.ts';
import { type ModelCall, ModelError } from './model.ts';
import { unfinishedUsage } from './models/estimate-tokens.ts';
import { maxAnswerParts, tooLong } from './models/model-failure.ts';
import { buildPrompt } from './prompt.ts';
import { maxAttempts, retryDelay } from './retry.ts';
import { BrokenAnswer, type ModelStep, TurnAborted, type TurnYield } from './turn-world.ts';

/** Calls the model and shows its text as it comes. After a failure that may pass, the call is tried again. */
export async function* streamAnswer(step: ModelStep): AsyncGenerator<TurnYield, Answer, void> {
  const { state, turn, agent, model, tools, world, signal } = step;
  const call: ModelCall = {
    instructions: agent.instructions,
    messages: buildPrompt(state),
    tools,
    thinking: turn.message?.thinking ?? false,
    settings: modelConfigOf(world.release, agent).settings,
    received: 0,
  };
  let draft = new Draft(step, turn.step + 1);
  /** What failed attempts have used: the provider charges for what they produced. */
  let spent = noUsage;
  let delay = 0;
  for (let attempt = 1; ; attempt += 1) {
    if (attempt > 1) draft = draft.nextAttempt();
    call.received = 0;
    let isAsked = false;
    try {
      // Further attempts are streamed: the first may have been cut off because nothing is sent until an answer in one piece is complete.
      call.whole = attempt === 1 && model.answersWhole?.(call) === true && !world.isWatched();
      if (delay > 0) await world.sleep(delay, signal);
      signal.throwIfAborted();
      isAsked = true;
      for await (const part of model.stream(call, signal)) {
        switch (part.type) {
          case 'text-delta':
          case 'reasoning-delta': {
            if (attempt > 1 && draft.diverges(part.type, part.text))
              for (const fragment of draft.beginAnew()) yield { type: 'live', fragment };
            const fragment = draft.add(part.type, part.text);
            // The last words are shown when the message is stored, a moment later: with the end of the turn, in one packet.
            const isSoonStored = part.type === 'text-delta' && part.isLast && (fragment?.offset ?? 0) > 0;
            if (fragment !== undefined && !isSoonStored) yield { type: 'live', fragment };
            break;
          }
          case 'reasoning-end':
            draft.endReasoning(storableJson(part.providerMetadata));
            break;
          case 'tool-call':
            draft.calls.push({
              callId: world.newId('call_'),
              tool: storable(part.tool),
              input: storableJson(part.input),
              ...(part.providerMetadata === undefined ? {} : { providerMetadata: storableJson(part.providerMetadata) }),
            });
            break;
          case 'finish':
            if (attempt > 1 && draft.fallsShort()) for (const fragment of draft.beginAnew()) yield { type: 'live', fragment };
            return draft.finished(addUsage(spent, part.usage));
        }
        if (draft.parts > maxAnswerParts) throw tooLong({ provider: model.provider, apiKey: undefined });
      }
      throw new ModelError('broken_stream', model.provider, 'The model ended its answer early.');
    } catch (error) {
      spent = addUsage(spent, unfinishedUsage(call, isAsked && signal.aborted));
      if (signal.aborted) {
        const why = signal.reason instanceof TurnAborted ? signal.reason.why : undefined;
        if (why === 'interrupted') return draft.interrupted(spent);
        throw why === 'timeout' ? broken(signal.reason, draft, turn, spent) : signal.reason;
      }
      if (!(error instanceof ModelError)) throw error;
      // Some servers can only stream, at least for some requests.
      const onlyStreams = call.whole && error.code === 'invalid_model_request';
      if (!(error.retryable || onlyStreams) || attempt === maxAttempts) throw broken(error, draft, turn, spent);
      delay = onlyStreams ? 0 : retryDelay(attempt, error.retryAfterSeconds);
    }
  }
}

/** What to throw for an unfinished answer. If it said nothing, its usage is only added to that of the turn. */
function broken(cause: unknown, draft: Draft, turn: TurnState, spent: Usage): unknown {
  const events = draft.failed(spent);
  if (events.length > 0) return new BrokenAnswer(cause, events, spent);
  turn.usage = addUsage(turn.usage, spent);
  return cause;
}
