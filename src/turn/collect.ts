import { ServiceError } from '../errors.ts';
import {
  type ApprovalRequested,
  isStored,
  type MessageReceived,
  type SessionUpdate,
  type StoredEvent,
  type ToolFinished,
  type TurnEnded,
  type TurnFailed,
  usageIn,
} from '../session/events.ts';
import { continueText } from '../session/transcript.ts';
import { addUsage, noUsage, type Usage } from '../session/usage.ts';
import { isRest } from './watch.ts';

/** The result of a turn, for a surface that answers once instead of streaming. */
export interface TurnOutcome {
  turnId: string;
  message: MessageReceived | undefined;
  agent: string;
  /** Everything the agent said in this turn. */
  text: string;
  assistantMessageId: string | undefined;
  parts: OutcomePart[];
  usage: Usage;
  /** Set when the turn waits for a person. */
  pending: ApprovalRequested | undefined;
  ended: TurnEnded | undefined;
  failed: TurnFailed | undefined;
}

export type OutcomePart = { type: 'text'; text: string } | { type: 'reasoning'; text: string } | ToolPart;

interface ToolPart {
  type: 'tool_use';
  id: string;
  tool: string;
  input: unknown;
  state: ToolState;
  output?: string;
}

export type ToolState = 'running' | 'completed' | 'error' | 'denied' | 'interrupted';

/** A unary answer is the stream, collected. Throws `CutShort` when the stream ends before the turn does. */
export async function collectTurn(updates: AsyncIterable<SessionUpdate[]>): Promise<TurnOutcome> {
  const outcome: TurnOutcome = {
    turnId: '',
    message: undefined,
    agent: '',
    text: '',
    assistantMessageId: undefined,
    parts: [],
    usage: noUsage,
    pending: undefined,
    ended: undefined,
    failed: undefined,
  };
  /** By call id: a turn may make thousands of calls. */
  const calls = new Map<string, ToolPart>();
  let last: StoredEvent | undefined;
  for await (const batch of updates) {
    for (const update of batch) {
      if (!isStored(update)) continue;
      addEvent(outcome, calls, update);
      last = update;
    }
  }
  if (last === undefined || !isRest(last.type)) throw new CutShort();
  return outcome;
}

/** For the caller of a turn, which has not failed: this process is stopping, and another one continues the turn. */
export class CutShort extends ServiceError {
  constructor() {
    super('unavailable', 'The server is shutting down; the turn continues without it.', { retryAfterSeconds: 1 });
  }
}

export function toolState({ notRun, isError }: ToolFinished): ToolState {
  if (notRun === 'denied' || notRun === 'interrupted') return notRun;
  return isError ? 'error' : 'completed';
}

function addEvent(outcome: TurnOutcome, calls: Map<string, ToolPart>, event: StoredEvent): void {
  outcome.turnId = event.turnId;
  const usage = usageIn(event);
  if (usage !== undefined) outcome.usage = addUsage(outcome.usage, usage);
  switch (event.type) {
    case 'message-received':
      outcome.message = event.data;
      return;
    case 'turn-started':
    case 'turn-resumed':
      outcome.agent = event.data.agent;
      return;
    case 'reasoning-produced':
      outcome.parts.push({ type: 'reasoning', text: event.data.text });
      return;
    case 'message-produced':
      outcome.assistantMessageId ??= event.data.messageId;
      outcome.agent = event.data.agent;
      outcome.text = continueText(outcome.text, event.data.text);
      if (event.data.text !== '') outcome.parts.push({ type: 'text', text: event.data.text });
      return;
    case 'tool-called': {
      const { callId: id, tool, input } = event.data;
      const part: ToolPart = { type: 'tool_use', id, tool, input, state: 'running' };
      outcome.parts.push(part);
      calls.set(id, part);
      return;
    }
    case 'tool-finished': {
      const part = calls.get(event.data.callId);
      if (part === undefined) return;
      part.state = toolState(event.data);
      part.output = event.data.output;
      return;
    }
    case 'approval-requested':
      outcome.pending = event.data;
      return;
    case 'turn-ended':
      outcome.ended = event.data;
      outcome.usage = event.data.usage;
      return;
    case 'turn-failed':
      outcome.failed = event.data;
      outcome.usage = event.data.usage;
      return;
    case 'approval-resolved':
    case 'interrupt-requested':
    case 'context-condensed':
      return;
  }
}
