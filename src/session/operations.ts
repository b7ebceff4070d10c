import type { ApprovalDecision, ApprovalRequested, MessageReceived, NewEvent, RequestEcho } from './events.ts';
import type { PendingInput } from './pending-input.ts';

/**
 * What can be written to a conversation. The SQL function `apply_turn_operations` carries out each operation, in order within its
 * session: the whole operation or, when it answers with a refusal, nothing. The SQL type `turn_operation` has the same field names.
 */
export type Operation =
  | AdmitOperation
  | AdvanceOperation
  | ResolveOperation
  | InterruptOperation
  /** Adds messages that no turn answers. */
  | { kind: 'note'; org: number; session: string; turn: string; events: NewEvent[]; messages: number };

/** Asks the active turn to end; `stop` also closes the session to new messages. */
export interface InterruptOperation {
  kind: 'interrupt' | 'stop';
  org: number;
  session: string;
  reason: 'user' | 'stop';
  /** Only this turn is meant, which may also be queued. */
  turn?: string;
}

/** What a turn reserves of its budgets, if any are set, from its start to its end or pause. */
export interface Reservation {
  reserveTokens: number;
  /** What the turn may cost, and how much of that comes from prepaid credits. */
  reserveMicros: number;
  reserveCreditMicros: number;
}

/** Adds a message: starts its turn if the session is free, otherwise queues it. */
interface AdmitOperation extends Reservation {
  kind: 'admit';
  org: number;
  session: string;
  /** The id of the message's turn. */
  turn: string;
  input: MessageReceived;
  /** The end user for whom the turn's usage is counted. */
  endUserId: string | undefined;
  /** Identifies the request, so that a client library's automatic retry finds its turn. */
  fingerprint: string | undefined;
  /** It is such a retry: it gets the turn with the same fingerprint of the last 10 minutes, if there is one. */
  isRetry?: boolean;
  idempotencyKey: string | undefined;
  /** Tells a repetition of the request from another one under the same key. */
  idempotencyFingerprint: string | undefined;
  /** Queue behind a pending approval instead of being refused. */
  waitsForApproval: boolean;
}

/** A file in Base64, or null for one that is deleted; or the name under which the content was stored ahead. */
export type ChangedFile = { path: string; content: string | null; size: number } | { path: string; size: number; ahead: string };

/** Writes a commit point of a turn: after `append` it continues, after `pause` it waits for a person, after `end` the next one starts. */
export interface AdvanceOperation {
  kind: 'append' | 'pause' | 'end';
  org: number;
  session: string;
  turn: string;
  events: NewEvent[];
  /** Added to the session's count of messages: 1 for the first text of the turn, 0 for its other texts, undefined without a text. */
  messages: number | undefined;
  /** Of the workspace. */
  files?: ChangedFile[];
  /** What all files of the organization may have together; no limit if not set. */
  maxFileBytes?: number | undefined;
  /** The sub-agent that the conversation was handed to. */
  currentAgent?: string;
  webhooks?: { type: string; data: unknown }[];
  /** On `pause` and `end`: what was used since the turn started or last paused, by sub-agent if there were several. */
  used?: UsedModel | UsedModel[];
  /** On `pause`: the approval that is asked for, and the part of it that is kept in the session's row. */
  request?: ApprovalRequested;
  pendingInput?: PendingInput;
}

/** What a turn used of one model. */
export interface UsedModel {
  model: string;
  turns: number;
  input: number;
  output: number;
  cached: number;
  cost_micros: number;
  credit_micros: number;
}

/** Answers an approval; this process then continues the turn. */
interface ResolveOperation extends Reservation {
  kind: 'resolve';
  org: number;
  session: string;
  requestId: string;
  decision: ApprovalDecision;
  input?: { echo: RequestEcho };
}

/** A turn, its session and its organization. */
export interface TurnIds {
  turn: string;
  session: string;
  org: number;
}

/** A turn that was just started and assigned to this process. */
export interface StartedTurn extends TurnIds {
  /** Of the turn's message. */
  seq: number;
  input: MessageReceived;
  agent: string;
}

/** What an operation is answered. */
export type ResultOf<Asked extends Operation> = Results[Asked['kind']];

interface Results {
  admit: AdmitResult;
  append: AdvanceResult;
  pause: AdvanceResult;
  end: AdvanceResult;
  resolve: ResolveResult;
  interrupt: InterruptResult;
  stop: InterruptResult;
  note: { status: 'done'; seq: number } | { status: 'not-found'; stopped?: true };
}

type AdmitResult =
  | { status: 'started'; started: StartedTurn }
  /** The message will have a seq after this one. */
  | { status: 'queued'; after: number }
  /** An earlier copy of the request started this turn. */
  | { status: 'replayed'; turn: string }
  | AdmitRefusal;

export type AdmitRefusal =
  | { status: 'input-pending'; request_id: string }
  | { status: 'not-found' | 'key-reused' | 'stopped' | 'queue-full' | 'participants-full' }
  | { status: 'subscription_past_due' | 'credits_exhausted' | 'total_tokens_cap_reached' | 'instance_spend_cap_exceeded' };

export type AdvanceResult =
  | WrittenResult
  /** Nothing was written: another process has taken the turn over, or the files would exceed the limit of the organization. */
  | { status: 'lost' | 'files-full' };

/** `interrupted`: a pause that came after an interrupt was not written, since the turn is to end. */
export interface WrittenResult {
  status: 'done' | 'interrupted';
  /** Of the first event that was written, or would have been. */
  seq: number;
  /** After `append`: the turn is to end. */
  interrupted?: boolean;
  /** After `end`: the queued turn that starts now; or, if the session was stopped, the last seq after all queued turns were ended. */
  next?: StartedTurn | { endedThrough: number } | null;
}

type ResolveResult =
  /** `seq` is that of the answer, which the turn continues after. */
  | { status: 'resumed'; turn: string; seq: number; callId: string; agent: string }
  /** It was answered before, in the same way or differently. */
  | { status: 'same' | 'different'; turn: string; seq: number }
  | { status: 'not-found' }
  /** It is not pending. */
  | { status: 'mismatch' };

type InterruptResult =
  /** A paused turn is `resumed`, to end. */
  | { status: 'interrupting' | 'resumed'; turn: string; seq: number }
  /** A turn that is `queued` will not run. */
  | { status: 'queued' | 'idle' | 'not-found' };
