import type { Decision, PendingInput, TranscriptMessage, Usage } from './types.ts';

export interface ManagedSession {
  id: string;
  object: 'session';
  status: 'idle' | 'running';
}

export interface ManagedState extends ManagedSession {
  /** The whole log so far. */
  events: LoggedEvent[];
}

export interface ManagedList {
  object: 'list';
  data: ManagedSession[];
}

export interface ManagedTranscript {
  session_id: string;
  messages: TranscriptMessage[];
}

interface Logged {
  /** 1, 2, 3, ... in each session, without gaps. */
  seq: number;
  session_id: string;
  created_at: string;
  turn_id: string;
}

/** An entry of the log: stored, ordered, the same for everyone who reads it. */
export type LoggedEvent = Logged &
  (
    | {
        type: 'user.message';
        message_id: string;
        text: string;
        files?: string[];
        participant_name?: string;
        participant_type?: 'human' | 'ai';
      }
    | { type: 'user.tool_confirmation'; request_id: string; tool_use_id: string; result: Decision }
    | { type: 'user.interrupt' }
    | { type: 'session.status_running'; agent: string }
    | {
        type: 'agent.message';
        message_id: string;
        agent: string;
        text: string;
        /** Cut off by an interrupt or a failure. */
        partial?: boolean;
      }
    | { type: 'agent.thinking'; text: string }
    | { type: 'agent.tool_use'; tool_use_id: string; tool: string; input: unknown }
    | { type: 'agent.tool_result'; tool_use_id: string; tool: string; output: string; is_error: boolean }
    | {
        type: 'session.status_idle';
        stop_reason: 'requires_action';
        request_id: string;
        tool_use_id: string;
        pending_input: PendingInput;
        usage: Usage;
      }
    | {
        type: 'session.status_idle';
        stop_reason: 'end_turn' | 'interrupted' | 'max_steps';
        usage: Usage;
        /** A tool call was denied in this turn; `request_id` is the request that a person denied. The release may deny one unasked. */
        denied?: boolean;
        request_id?: string;
      }
    | { type: 'session.error'; code: string; message: string; provider?: string; usage: Usage }
    | { type: 'session.context_condensed'; through_seq: number; summary: string | null }
  );

/** Text as it is written, never stored: the sum of a message's deltas is the `agent.message` with the same `message_id`. */
export interface MessageDelta {
  type: 'agent.message_delta';
  session_id: string;
  message_id: string;
  text: string;
}

export type ManagedEvent = LoggedEvent | MessageDelta;

/** An event that a client may post to the log. */
export type UserEvent =
  | { type: 'user.message'; text: string }
  | { type: 'user.tool_confirmation'; request_id: string; result: Decision | 'allow'; tool_use_id?: string }
  | { type: 'user.interrupt' };
