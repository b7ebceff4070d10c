import type { Usage } from './usage.ts';

/**
 * What a conversation is made of. Stored events are whole, have a `seq` without gaps and are never changed; each one is
 * exactly one entry of the managed log. Live fragments are shown once and never stored.
 */
export type NewEvent =
  | { type: 'message-received'; data: MessageReceived }
  | { type: 'turn-started'; data: { agent: string } }
  | { type: 'reasoning-produced'; data: ReasoningProduced }
  | { type: 'message-produced'; data: MessageProduced }
  | { type: 'tool-called'; data: ToolCalled }
  | { type: 'tool-finished'; data: ToolFinished }
  | { type: 'approval-requested'; data: ApprovalRequested }
  | { type: 'approval-resolved'; data: ApprovalResolved }
  | { type: 'turn-resumed'; data: { agent: string } }
  | { type: 'interrupt-requested'; data: { reason: 'user' | 'stop' } }
  | { type: 'context-condensed'; data: ContextCondensed }
  | { type: 'turn-ended'; data: TurnEnded }
  | { type: 'turn-failed'; data: TurnFailed };

export type StoredEvent = NewEvent & { seq: number; turnId: string; createdAt: Date };

/**
 * Text as it is produced: a preview of the stored event with the same `messageId` that follows. `offset` is where in that
 * text it begins, so that whoever starts to watch in the middle knows what is missing.
 */
export interface LiveFragment {
  type: 'text-delta' | 'reasoning-delta';
  turnId: string;
  messageId: string;
  step: number;
  agent: string;
  offset: number;
  text: string;
}

export type SessionUpdate = StoredEvent | LiveFragment;

export interface MessageReceived {
  messageId: string;
  text: string;
  /** Routes this one turn to a sub-agent. */
  agent?: string;
  /** Show the reasoning of this turn. */
  thinking?: boolean;
  participantName?: string;
  participantType?: 'human' | 'ai';
  /** Workspace paths staged for this turn. */
  files?: string[];
  /** Earlier messages that a stateless client sent along; context for the model, not messages of this session. */
  context?: { role: 'user' | 'assistant' | 'system'; text: string }[];
  echo?: RequestEcho;
  /** A hash of the instructions that came with the request, for the next request to compare its own with. */
  instructions?: string;
  /** Nobody can be asked on this wire: what would prompt is denied. */
  unattended?: boolean;
  /** True for an entry that only informs (a gateway delivery): no turn answers it. */
  silent?: boolean;
}

/** What a request said that its answer repeats, for when the answer is read again. */
export interface RequestEcho {
  model?: string;
  previousResponseId?: string;
  metadata?: Record<string, unknown>;
}

export interface ReasoningProduced {
  messageId: string;
  text: string;
  step: number;
  /** Of a step whose model call failed after this: what it had used. */
  stepUsage?: Usage;
  /** What the provider needs back to accept this reasoning in a later call (a signature, an id). */
  providerMetadata?: Record<string, unknown>;
}

export interface MessageProduced {
  messageId: string;
  text: string;
  step: number;
  agent: string;
  /** The turn was interrupted or its stream broke here: the text is what had arrived. */
  partial?: boolean;
  /** Of a step whose model call failed after this: what it had used. */
  stepUsage?: Usage;
}

export interface ToolCalled {
  callId: string;
  tool: string;
  input: unknown;
  step: number;
  /** On the last call of a step: what the model used for it. */
  stepUsage?: Usage;
  /** What the provider needs back to accept this call in a later one. */
  providerMetadata?: Record<string, unknown>;
}

export interface ToolFinished {
  callId: string;
  tool: string;
  output: string;
  isError: boolean;
  /** Why it did not run, if it did not. `unknown`: its process died while it ran. */
  notRun?: 'denied' | 'unknown' | 'interrupted';
  /** Sub-agent that the conversation was handed to. */
  handoff?: string;
}

export interface ApprovalRequested {
  requestId: string;
  callId: string;
  kind: 'tool_use';
  tool: string;
  input: unknown;
  message: string;
  options: ApprovalDecision[];
  /** What `approve_session` would cover: the tool and the rule pattern that asked. */
  pattern: string;
  /** Of the turn up to here. */
  usage?: Usage;
  /** Whom the turn is with, and goes on with. */
  agent?: string;
}

export type ApprovalDecision = 'approve_once' | 'approve_session' | 'deny';

export interface ApprovalResolved {
  requestId: string;
  callId: string;
  decision: ApprovalDecision;
  echo?: RequestEcho;
}

export interface ContextCondensed {
  /** The log up to here is left out of what the model sees. */
  throughSeq: number;
  /** What stands in its place, when the release summarises instead of dropping. */
  summary: string | null;
  /** What the summary cost. */
  usage?: Usage;
}

export type StopReason = 'end_turn' | 'interrupted' | 'max_steps';

export interface TurnEnded {
  stopReason: StopReason;
  /** Of the whole turn. */
  usage: Usage;
  step: number;
  /** Of the last step. */
  stepUsage: Usage;
  /** Set when something was denied in this turn. */
  deniedRequestId?: string;
}

export interface TurnFailed {
  code: string;
  message: string;
  provider?: string;
  usage: Usage;
  retryAfterSeconds?: number;
}

export function isStored(update: SessionUpdate): update is StoredEvent {
  return 'seq' in update;
}

/** What of the turn's usage this event brings; its end has the sum. */
export function usageIn(event: NewEvent): Usage | undefined {
  switch (event.type) {
    case 'tool-called':
    case 'message-produced':
    case 'reasoning-produced':
      return event.data.stepUsage;
    case 'context-condensed':
      return event.data.usage;
    default:
      return undefined;
  }
}
