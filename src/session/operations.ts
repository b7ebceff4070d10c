import type { ApprovalDecision, ApprovalRequested, MessageReceived, NewEvent } from './events.ts';

/** What can be written to a conversation; the SQL function `apply_turn_operations` carries each out in its session's order. */
export type Operation =
  | AdmitOperation
  | AdvanceOperation
  | ResolveOperation
  | { kind: 'interrupt' | 'stop'; org: number; session: string; reason: 'user' | 'stop' }
  | { kind: 'note'; org: number; session: string; turn: string; events: NewEvent[] };

export interface Reservation {
  reserveTokens: number;
  /** What the turn may cost in all, and what of it comes from prepaid credits. */
  reserveMicros: number;
  reserveCreditMicros: number;
}

export interface AdmitOperation extends Reservation {
  kind: 'admit';
  org: number;
  session: string;
  turn: string;
  input: MessageReceived;
  endUserId: string | undefined;
  fingerprint: string | undefined;
  idempotencyKey: string | undefined;
  idempotencyFingerprint: string | undefined;
  /** Queue behind a pending approval instead of being refused. */
  waitsForApproval: boolean;
}

export interface AdvanceOperation {
  kind: 'append' | 'pause' | 'end';
  org: number;
  session: string;
  turn: string;
  events: NewEvent[];
  files?: { path: string; content: string | null; size: number }[];
  currentAgent?: string;
  webhooks?: { type: string; data: unknown }[];
  used?: { model: string; turns: number; input: number; output: number; cached: number; cost_micros: number; credit_micros: number };
  request?: ApprovalRequested;
  pendingInput?: unknown;
}

export interface ResolveOperation extends Reservation {
  kind: 'resolve';
  org: number;
  session: string;
  requestId: string;
  decision: ApprovalDecision;
}

/** A turn that has just been given to this process. */
export interface StartedTurn {
  turn: string;
  session: string;
  org: number;
  seq: number;
  input: MessageReceived;
  agent: string;
}

/** The answer of every operation; which fields are there depends on the status. */
export interface OperationResult {
  status: OperationStatus;
  turn?: string;
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
  | 'replayed'
  | 'key-reused'
  | 'subscription_past_due'
  | 'credits_exhausted'
  | 'total_tokens_cap_reached'
  | 'instance_spend_cap_exceeded'
  | 'stopped'
  | 'input-pending'
  | 'queue-full'
  | 'started'
  | 'queued'
  | 'done'
  | 'lost'
  | 'resumed'
  | 'same'
  | 'different'
  | 'mismatch'
  | 'interrupting'
  | 'idle';
