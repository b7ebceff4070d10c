import type { Routes, Schemas } from '../../../client/src/index.ts';

// Types of the server's responses: those of documented routes come from the client, those of the dashboard's own are below.

export interface List<Item> {
  data: Item[];
  next_cursor: string | null;
}

export type Agent = Schemas['Agent'];
export type ApiKey = Schemas['ApiKey'];
export type Budget = Schemas['Budget'];
export type Credential = Schemas['ModelCredential'];
export type Delivery = Schemas['WebhookDelivery'];
export type Invitation = Schemas['Invitation'];
export type Member = Schemas['Member'];
export type Organization = Schemas['Organization'];
export type Release = Schemas['Release'];
export type SessionToken = Schemas['SessionToken'];
export type UsageRow = Schemas['Usage'];
export type Verification = Routes['GET /api/audit_events/verification']['answer'];
export type WebhookEndpoint = Schemas['WebhookEndpoint'];
export type WebhookList = Routes['GET /api/webhook_endpoints']['answer'];

export interface SignedIn {
  user: { id: string; email: string; name: string };
  organization: { id: number; slug: string; name: string; status: string };
  role: Member['role'];
  scopes: string[];
  organizations: { slug: string; name: string; role: Member['role'] }[];
}

export type AuditEvent = Schemas['AuditEvent'] & { id: number; hash: string };

export interface SessionRow {
  id: string;
  agent: string;
  release: number;
  surface: string;
  status: 'active' | 'stopped';
  state: 'running' | 'waiting' | 'failed' | 'idle' | 'stopped';
  end_user_id: string | null;
  message_count: number;
  event_count: number;
  created_at: string;
  updated_at: string;
}

export interface SessionHead extends SessionRow {
  current_agent: string;
  permission_mode: string | null;
  metadata: Record<string, unknown>;
  instance: string;
}

export interface Approval {
  request_id: string;
  session_id: string;
  agent: string;
  end_user_id: string | null;
  tool: string;
  input: unknown;
  message: string;
  options: string[];
  created_at: string;
}

export interface Overview {
  now: string;
  turns: {
    count: number;
    failed: number;
    sampled: number;
    median_ms: number | null;
    p95_ms: number | null;
    minutes: { minute: string; turns: number; failed: number }[];
    failures: { session_id: string; seq: number; agent: string; code: string; message: string | null; at: string }[];
  };
  budget: {
    state: 'ok' | 'exhausted';
    reason: string | null;
    percent_used: number;
    spent_micros: number;
    credits_micros: number | null;
    tokens_used: number;
    total_tokens_cap: number | null;
  };
  pending_approvals: number;
}

export interface SystemInformation {
  version: string;
  node: string;
  database: string;
  platform: string;
  started_at: string;
  process_id: string;
  memory_bytes: number;
  gateway: boolean;
  rate_limit_rps: number;
  max_turns: number;
  webhook_max_failures: number;
  private_upstreams: boolean;
  public_url: string | null;
}
