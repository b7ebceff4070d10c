import type { PendingInput } from '../database/schema.ts';
import type { ApprovalDecision, ApprovalRequested, MessageReceived, NewEvent, RequestEcho } from './events.ts';

/**
 * What can be written to a conversation. The SQL function `apply_turn_operations` carries each out, in its session's order:
 * all of it or, when it answers with a refusal, nothing. Its type `turn_operation` has these names.
 */
export type Operation =
  | AdmitOperation
  | AdvanceOperation
  | ResolveOperation
  /** Asks the active turn to end; `stop` also closes the session to new messages. */
  | { kind: 'interrupt' | 'stop'; org: number; session: string; reason: 'user' | 'stop' }
  /** Adds messages that no turn answers. */
  | { kind: 'note'; org: number; session: string; turn: string; events: NewEvent[]; messages: number };

/** What a turn holds of its budgets from its beginning to its end or pause, where any are set. */
export interface Reservation {
  reserveTokens: number;
  /** What the turn may cost in all, and what of it comes from prepaid credits. */
  reserveMicros: number;
  reserveCreditMicros: number;
}

/** A message: gets its turn where the session is free, else its place in line. */
interface AdmitOperation extends Reservation {
  kind: 'admit';
  org: number;
  session: string;
  /** The id that its turn will have. */
  turn: string;
  input: MessageReceived;
  /** Whom the turn's usage is counted for. */
  endUserId: string | undefined;
  /** By which a client library's own retry finds the turn. */
  fingerprint: string | undefined;
  idempotencyKey: string | undefined;
  /** What makes a repetition under the key the same request. */
  idempotencyFingerprint: string | undefined;
  /** Queue behind a pending approval instead of being refused. */
  waitsForApproval: boolean;
}

/** A commit point of a running turn: `append` goes on, `pause` waits for a person, `end` lets the next message begin. */
export interface AdvanceOperation {
  kind: 'append' | 'pause' | 'end';
  org: number;
  session: string;
  turn: string;
  events: NewEvent[];
  /** 1 where the turn says its first words, 0 where it goes on, and undefined where it says nothing: its texts count as one message. */
  messages: number | undefined;
  /** Of the workspace. Base64; null deletes. */
  files?: { path: string; content: string | null; size: number }[];
  /** The sub-agent that the conversation was handed to. */
  currentAgent?: string;
  webhooks?: { type: string; data: unknown }[];
  /** On `pause` and `end`: what was used since the turn was last settled; of several sub-agents, what each did. */
  used?: UsedModel | UsedModel[];
  /** On `pause`: what is asked, and what of it the session's head shows. */
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

/** The answer to an approval; the process that gives it goes on with the turn. */
interface ResolveOperation extends Reservation {
  kind: 'resolve';
  org: number;
  session: string;
  requestId: string;
  decision: ApprovalDecision;
  input?: { echo: RequestEcho };
}

/** Which turn, and whose it is. */
export interface TurnIds {
  turn: string;
  session: string;
  org: number;
}

/** A turn that has just been given to this process. */
export interface StartedTurn extends TurnIds {
  /** Of its message. */
  seq: number;
  input: MessageReceived;
  agent: string;
}

/** The answer of every operation; which fields are there depends on the status. */
export interface OperationResult {
  status: OperationStatus;
  turn?: string;
  /** Of the first event that was written; where an approval was answered before, of that answer. */
  seq?: number;
  /** Of a queued turn: its message comes somewhere after this. */
  after?: number;
  request_id?: string;
  callId?: string;
  agent?: string;
  interrupted?: boolean;
  started?: StartedTurn;
  /** The turn that waited and runs now; or, of a stopped session, how far its log goes now that all who waited were ended. */
  next?: StartedTurn | { endedThrough: number } | null;
}

type OperationStatus =
  | 'not-found'
  // An admission: taken, taken before under the same key, or refused.
  | 'started'
  | 'queued'
  | 'replayed'
  | 'key-reused'
  | 'subscription_past_due'
  | 'credits_exhausted'
  | 'total_tokens_cap_reached'
  | 'instance_spend_cap_exceeded'
  | 'stopped'
  | 'input-pending'
  | 'queue-full'
  | 'participants-full'
  // A commit point or a note: written, or the turn is another process's by now.
  | 'done'
  | 'lost'
  // A pause that an interrupt came before: not written, the turn is to end.
  | 'interrupted'
  // An answer to an approval: the first, the same again, another one, or to something that is not asked.
  | 'resumed'
  | 'same'
  | 'different'
  | 'mismatch'
  // An interrupt: the turn is told, a paused one is `resumed` to end, or nothing runs.
  | 'interrupting'
  | 'idle';
