import { type ApprovalDecision, type FoldedEvent, type MessageReceived, type StopReason, usageIn } from './events.ts';
import { addUsage, noUsage, type Usage } from './usage.ts';

/** What the log adds up to. The fold changes it in place, so that a turn costs only as much as its own events. */
export interface SessionState {
  /** Of the last event folded in. */
  seq: number;
  /** The conversation as turns saw it, oldest first. */
  entries: Entry[];
  /** Replaces entries that were condensed away. */
  summary: string | undefined;
  /** What was approved for the whole session, as made by `grantKey`. */
  grants: Set<string>;
  turn: TurnState | undefined;
}

/** One thing that the model may be shown, with its position in the log. */
export type Entry =
  | { seq: number; type: 'user'; message: MessageReceived }
  | { seq: number; type: 'text'; text: string }
  | { seq: number; type: 'reasoning'; text: string; providerMetadata: Record<string, unknown> | undefined }
  | { seq: number; type: 'call'; callId: string; tool: string; input: unknown; providerMetadata: Record<string, unknown> | undefined }
  | { seq: number; type: 'result'; callId: string; tool: string; output: string; isError: boolean };

export interface TurnState {
  id: string;
  agent: string;
  message: MessageReceived | undefined;
  /** Steps begun so far; a step is one model call and its tools. */
  step: number;
  usage: Usage;
  /** The part of `usage` that was charged when the turn paused. */
  settledUsage: Usage;
  /** The rest of `usage`, by sub-agent: they may have different models. */
  usageOf: Map<string, Usage>;
  /** Calls of the current step, in order. */
  calls: CallState[];
  hasSpoken: boolean;
  interrupted: boolean;
  denied: boolean;
  deniedRequestId: string | undefined;
  ended: StopReason | 'failed' | undefined;
  failure: { code: string; provider: string | undefined } | undefined;
}

export interface CallState {
  callId: string;
  /** The sub-agent that made the call. Another call of the same step may have handed the turn over meanwhile. */
  agent: string;
  tool: string;
  input: unknown;
  finished: boolean;
  /** Set when the call needed an approval; without a decision, it is still pending. */
  approval: { requestId: string; pattern: string; decision: ApprovalDecision | undefined } | undefined;
}

export function emptyState(): SessionState {
  return { seq: 0, entries: [], summary: undefined, grants: new Set(), turn: undefined };
}

export function foldSession(events: Iterable<FoldedEvent>, state: SessionState = emptyState()): SessionState {
  for (const event of events) applyEvent(state, event);
  return state;
}

/** What an approval for the whole session covers: the same tool, when the same rule asks. */
export function grantKey(tool: string, pattern: string): string {
  return `${tool}\n${pattern}`;
}

function applyEvent(state: SessionState, event: FoldedEvent): void {
  const { seq } = event;
  state.seq = seq;
  switch (event.type) {
    case 'message-received':
      state.entries.push({ seq, type: 'user', message: event.data });
      if (!event.data.silent) state.turn = newTurn(event.turnId, event.data);
      return;
    case 'context-condensed':
      state.entries = state.entries.filter((entry) => entry.seq > event.data.throughSeq);
      state.summary = event.data.summary ?? undefined;
      break;
  }
  const turn = state.turn;
  if (turn === undefined || turn.id !== event.turnId) return;
  const usage = usageIn(event);
  if (usage !== undefined) {
    turn.usage = addUsage(turn.usage, usage);
    turn.usageOf.set(turn.agent, addUsage(turn.usageOf.get(turn.agent) ?? noUsage, usage));
  }
  switch (event.type) {
    case 'turn-started':
      turn.agent = event.data.agent;
      return;
    case 'reasoning-produced':
      beginStep(turn, event.data.step);
      state.entries.push({ seq, type: 'reasoning', text: event.data.text, providerMetadata: event.data.providerMetadata });
      return;
    case 'message-produced':
      beginStep(turn, event.data.step);
      if (event.data.text === '') return;
      turn.hasSpoken = true;
      state.entries.push({ seq, type: 'text', text: event.data.text });
      return;
    case 'tool-called': {
      const { callId, tool, input, step, providerMetadata } = event.data;
      beginStep(turn, step);
      turn.calls.push({ callId, agent: turn.agent, tool, input, finished: false, approval: undefined });
      state.entries.push({ seq, type: 'call', callId, tool, input, providerMetadata });
      return;
    }
    case 'tool-finished': {
      const { callId, tool, output, isError, notRun, handoff } = event.data;
      const call = callOf(turn, callId);
      if (call !== undefined) call.finished = true;
      state.entries.push({ seq, type: 'result', callId, tool, output, isError });
      if (notRun === 'denied') turn.denied = true;
      if (handoff !== undefined) turn.agent = handoff;
      return;
    }
    case 'approval-requested': {
      const { requestId, callId, pattern } = event.data;
      const call = callOf(turn, callId);
      if (call !== undefined) call.approval = { requestId, pattern, decision: undefined };
      turn.settledUsage = turn.usage;
      turn.usageOf.clear();
      return;
    }
    case 'approval-resolved': {
      const call = callOf(turn, event.data.callId);
      if (call?.approval === undefined) return;
      call.approval.decision = event.data.decision;
      if (event.data.decision === 'approve_session') state.grants.add(grantKey(call.tool, call.approval.pattern));
      if (event.data.decision === 'deny') turn.deniedRequestId = event.data.requestId;
      return;
    }
    case 'turn-resumed':
      return;
    case 'interrupt-requested':
      turn.interrupted = true;
      return;
    case 'turn-ended':
      turn.usage = event.data.usage;
      turn.ended = event.data.stopReason;
      return;
    case 'turn-failed':
      turn.usage = event.data.usage;
      turn.ended = 'failed';
      turn.failure = { code: event.data.code, provider: event.data.provider };
      return;
  }
}

function newTurn(id: string, message: MessageReceived): TurnState {
  return {
    id,
    agent: '',
    message,
    step: 0,
    usage: noUsage,
    settledUsage: noUsage,
    usageOf: new Map(),
    calls: [],
    hasSpoken: false,
    interrupted: false,
    denied: false,
    deniedRequestId: undefined,
    ended: undefined,
    failure: undefined,
  };
}

function callOf(turn: TurnState, callId: string): CallState | undefined {
  return turn.calls.find((call) => call.callId === callId);
}

/** The first event of a step clears the calls of the step before. */
function beginStep(turn: TurnState, step: number): void {
  if (step === turn.step) return;
  turn.step = step;
  turn.calls = [];
}
