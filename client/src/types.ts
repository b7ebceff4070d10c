// Types of the JSON that the server sends and accepts, with its own field names.

export type Decision = 'approve_once' | 'approve_session' | 'deny';
export type PermissionMode = 'interactive' | 'autonomous' | 'locked';
export type Metadata = Record<string, unknown>;

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
}

/** What a paused turn asks a person to permit. */
export interface PendingInput {
  request_id: string;
  kind: string;
  tool: string;
  message: string;
  options: Decision[];
}

export interface Session {
  id: string;
  metadata: Metadata;
  current_agent: string;
  status: 'active' | 'stopped';
  created_at: string;
  updated_at: string;
  parent_id: string | null;
  pending_input: PendingInput | null;
  permission_mode: PermissionMode | null;
  participants: unknown[];
  /** Only when the client has an `agent`. */
  agent?: { ref: string; agent_id: number; version: number };
}

export interface SessionList {
  agent: { ref: string; agent_id: number };
  page: number;
  per_page: number;
  total: number;
  sessions: {
    id: string;
    status: string;
    message_count: number;
    last_message_at: string | null;
    end_user_id: string | null;
  }[];
}

export interface TranscriptMessage {
  role: 'user' | 'assistant';
  text: string;
}

export interface Transcript {
  session: { id: string; status: string };
  messages: TranscriptMessage[];
}

export type Part =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'tool_use'; id: string; tool: string; input: unknown; state: string; output?: string }
  | { type: 'file'; path: string };

/** The complete answer of one turn. */
export interface Reply {
  text: string;
  session_id: string;
  agent: string;
  messages: { id: string; role: 'user' | 'assistant'; text: string; parts: Part[] }[];
  usage: Usage;
  /** Set when the turn waits for `inputs.resolve`. */
  pending_input?: PendingInput;
  /** Set when the turn was cut short. */
  stop_reason?: 'interrupted' | 'max_steps';
}

/** An event of a native turn. */
export type TurnEvent =
  | { type: 'text'; session_id: string; data: { part: Extract<Part, { type: 'text' }> } }
  | { type: 'reasoning'; session_id: string; data: { part: Extract<Part, { type: 'reasoning' }> } }
  | { type: 'tool_use'; session_id: string; data: { part: Extract<Part, { type: 'tool_use' }> } }
  | { type: 'step_start'; session_id: string; data: { step: number; agent: string } }
  | { type: 'step_finish'; session_id: string; data: { step: number; finish_reason: string; usage: Usage } }
  | { type: 'input_required'; session_id: string; data: PendingInput }
  | { type: 'error'; session_id: string; data: { code: string; provider: string | null; message: string } }
  | { type: 'done'; data: { usage: Usage; denied?: boolean; request_id?: string; stop_reason?: string } };

/** How a turn went on after its request was approved or denied. */
export interface Resolution {
  events: TurnEvent[];
  session: Session;
}

export interface MintSessionToken {
  /** Your own identifier of the end user; without it the token is anonymous. */
  end_user_id?: string;
  /** From 60 to 7,200. Default 900. */
  ttl_seconds?: number;
  agent_instance_id?: string;
  /** false: the end user cannot answer approvals. */
  may_approve?: boolean;
  metadata?: Metadata;
}

export interface SessionToken {
  token: string;
  expires_at: string;
}
