import type { StorableChange } from '../harness/tool.ts';
import type { CommitPoint } from '../harness/turn-world.ts';
import type { NewEvent } from '../session/events.ts';
import type { AdvanceOperation, ChangedFile, TurnIds, UsedModel } from '../session/operations.ts';
import { pendingInputOf } from '../session/pending-input.ts';
import type { SessionState } from '../session/state.ts';
import { noUsage, subtractUsage, type Usage, wireUsage } from '../session/usage.ts';

/** What is needed to charge for a turn's tokens. */
export interface Accounting {
  agentSlug: string;
  /** Cost of the usage on the model of this sub-agent; `creditMicros` is the part of it that comes from prepaid credits. */
  price(subAgent: string, usage: Usage): { model: string; costMicros: number; creditMicros: number };
}

/** The operation that writes a commit point: everything that must be true together is in it. */
export function advanceOperation(point: CommitPoint, turn: TurnIds, state: SessionState, accounting: Accounting): AdvanceOperation {
  const base = { org: turn.org, session: turn.session, turn: turn.turn, events: point.events, messages: messagesIn(point.events, state) };
  switch (point.type) {
    case 'commit': {
      const handoff = point.events.findLast((event) => event.type === 'tool-finished' && event.data.handoff !== undefined);
      const currentAgent = handoff?.type === 'tool-finished' ? handoff.data.handoff : undefined;
      return {
        ...base,
        kind: 'append',
        ...(point.changes === undefined ? {} : { files: point.changes.map(toFile) }),
        ...(currentAgent === undefined ? {} : { currentAgent }),
      };
    }
    case 'pause': {
      const { requestId, tool, message } = point.request;
      const hook = { session_id: turn.session, turn_id: turn.turn, request_id: requestId, tool, message };
      return {
        ...base,
        kind: 'pause',
        used: usedSince(state, state.turn?.usage, 0, accounting),
        request: point.request,
        pendingInput: pendingInputOf(point.request),
        webhooks: [{ type: 'turn.requires_action', data: hook }],
      };
    }
    case 'end': {
      const last = point.events.at(-1);
      const usage = last?.type === 'turn-ended' || last?.type === 'turn-failed' ? last.data.usage : undefined;
      return { ...base, kind: 'end', used: usedSince(state, usage, 1, accounting), webhooks: endHooks(last, turn, accounting) };
    }
  }
}

function messagesIn(events: readonly NewEvent[], state: SessionState): number | undefined {
  const isSpeaking = events.some((event) => event.type === 'message-produced' && event.data.text !== '');
  if (!isSpeaking) return undefined;
  return state.turn?.hasSpoken ? 0 : 1;
}

/** A pause charges for what was used so far, and the end for the rest. Each sub-agent's tokens cost what its model does. */
function usedSince(state: SessionState, usage: Usage | undefined, turns: number, { price }: Accounting): UsedModel | UsedModel[] {
  const { agent = '', settledUsage = noUsage, usageOf = new Map<string, Usage>() } = state.turn ?? {};
  const earlier: UsedModel[] = [];
  let rest = subtractUsage(usage ?? noUsage, settledUsage);
  for (const [other, share] of usageOf) {
    if (other === agent) continue;
    rest = subtractUsage(rest, share);
    earlier.push(used(share, 0, price(other, share)));
  }
  const last = used(rest, turns, price(agent, rest));
  return earlier.length === 0 ? last : [...earlier, last];
}

function used({ input, output, cachedInput }: Usage, turns: number, price: ReturnType<Accounting['price']>): UsedModel {
  const { model, costMicros, creditMicros } = price;
  return { model, turns, input, output, cached: cachedInput, cost_micros: costMicros, credit_micros: creditMicros };
}

function endHooks(last: NewEvent | undefined, turn: TurnIds, accounting: Accounting): { type: string; data: unknown }[] {
  const about = { session_id: turn.session, turn_id: turn.turn, agent: accounting.agentSlug };
  if (last?.type === 'turn-ended') {
    return [{ type: 'turn.completed', data: { ...about, usage: wireUsage(last.data.usage), stop_reason: last.data.stopReason } }];
  }
  if (last?.type === 'turn-failed')
    return [{ type: 'turn.failed', data: { ...about, error: { code: last.data.code, message: last.data.message } } }];
  return [];
}

function toFile(change: StorableChange): ChangedFile {
  if ('ahead' in change) return change;
  if ('deleted' in change) return { path: change.path, content: null, size: 0 };
  return { path: change.path, content: Buffer.from(change.content).toString('base64'), size: change.content.byteLength };
}
