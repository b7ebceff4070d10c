import type { Usage } from './usage.ts';

/**
 * What a conversation is made of. Stored events are complete, have a `seq` without gaps and are never changed; each is exactly one
 * entry of the managed log. Live fragments are shown once and never stored.
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

/** The part of a stored event that the state of its session is folded from. */
export type FoldedEvent = NewEvent & { seq: number; turnId: string };
export type StoredEvent = FoldedEvent & { createdAt: Date };

/**
 * Text as it is produced: a preview of the stored event with the same `messageId` that follows. `offset` is its position in that
 * text, so that a watcher who joins in the middle knows what is missing.
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
  /** A hash of the instructions that came with the request: the next request is compared with it. */
  instructions?: string;
  /** The client cannot answer approvals: a call that would ask for one is denied. */
  unattended?: boolean;
  /** The turn was admitted without credits, because the organization had keys of its own for all models that it may call and that cost. */
  onOwnKeys?: true;
  /** True for a message that no turn answers (a gateway delivery). */
  silent?: boolean;
}

/** Fields of a request that its response repeats, kept for when the response is read again. */
export interface RequestEcho {
  model?: string;
  previousResponseId?: string;
  metadata?: Record<string, unknown>;
}

export interface ReasoningProduced {
  messageId: string;
  text: string;
  step: number;
  /** Set when the model call failed after this: what the step had used. */
  stepUsage?: Usage;
  /** What the provider needs back to accept this reasoning in a later call (a signature, an id). */
  providerMetadata?: Record<string, unknown>;
}

export interface MessageProduced {
  messageId: string;
  text: string;
  step: number;
  agent: string;
  /** The turn was interrupted or the model's stream broke: the text is what had arrived. */
  partial?: boolean;
  /** Set when the model call failed after this: what the step had used. */
  stepUsage?: Usage;
}

export interface ToolCalled {
  callId: string;
  tool: string;
  input: unknown;
  step: number;
  /** On the last call of a step: what the model used for it. */
  stepUsage?: Usage;
  /** What the provider needs back to accept this tool call in a later model call. */
  providerMetadata?: Record<string, unknown>;
}

export interface ToolFinished {
  callId: string;
  tool: string;
  output: string;
  isError: boolean;
  /** Why the call did not run, if it did not. `unknown`: its process died, perhaps while it ran. */
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
  /** Of the turn so far. */
  usage?: Usage;
  /** The sub-agent that continues the turn. */
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
  /** Events up to this seq are no longer shown to the model. */
  throughSeq: number;
  /** Shown to the model instead, if the release summarises. */
  summary: string | null;
  /** What making the summary used. */
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
  /** Set when a call of this turn was denied: by a person, or by the rules of the release. */
  denied?: true;
  /** The request that a person denied. */
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

/** The part of the turn's usage that this event reports; the turn's last event has the sum. */
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
