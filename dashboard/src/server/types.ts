/** What the server answers, as its API reference describes it. */
export interface List<Item> {
  data: Item[];
  next_cursor: string | null;
}

export type Role = 'owner' | 'admin' | 'member';

export interface SignedIn {
  user: { id: string; email: string; name: string };
  organization: { id: number; slug: string; name: string; status: string };
  role: Role;
  scopes: string[];
  organizations: { slug: string; name: string; role: Role }[];
}

export interface Agent {
  id: number;
  slug: string;
  name: string;
  description: string;
  default: boolean;
  active_version: number | null;
  active_state: Release['state'] | null;
  created_at: string;
  updated_at: string;
}

export interface Release {
  version: number;
  state: 'pending' | 'materializing' | 'materialized' | 'failed';
  active: boolean;
  error: string | null;
  created_at: string;
  config: Record<string, unknown>;
  pinned_tools: { server: string; name: string; description: string; read_only: boolean }[];
}

export interface SessionRow {
  id: string;
  agent: string;
  release: number;
  surface: string;
  status: 'active' | 'stopped';
  state: 'running' | 'waiting' | 'idle' | 'stopped';
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

export interface ApiKey {
  id: number;
  name: string;
  prefix: string;
  scopes: string[];
  created_at: string;
  last_used_at: string | null;
  revoked_at: string | null;
}

export interface Budget {
  state: 'ok' | 'exhausted';
  reason: string | null;
  percent_used: number;
  credits_micros: number | null;
  credits_remaining_micros: number | null;
  total_tokens_cap: number | null;
  tokens_used: number;
  instance_spend_cap_micros: number | null;
  spent_micros: number;
  updated_at: string;
}

export interface UsageRow {
  day?: string;
  agent?: string | null;
  model?: string;
  end_user_id?: string | null;
  turns: number;
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  cached_tokens: number;
  cost_micros: number;
}

export interface AuditEvent {
  id: number;
  created_at: string;
  action: string;
  actor_email: string | null;
  api_key_prefix: string | null;
  subject_type: string;
  subject_id: string;
  ip_address: string | null;
  user_agent: string | null;
  metadata: Record<string, unknown>;
  hash: string;
}

export interface Organization {
  slug: string;
  name: string;
  default_agent: string | null;
  support_access: { transcripts: boolean };
  alert_thresholds: number[];
  subscription: { plan: string; status: string } | null;
}

export interface Member {
  id: string;
  email: string;
  name: string;
  role: Role;
  created_at: string;
}

export interface Invitation {
  id: number;
  email: string | null;
  role: Role;
  created_at: string;
  expires_at: string;
}

export interface Credential {
  provider: string;
  last_four: string;
  updated_at: string;
}

export interface WebhookEndpoint {
  id: number;
  name: string;
  url: string;
  event_types: string[];
  enabled: boolean;
  disabled_reason: string | null;
  consecutive_failures: number;
  previous_secret_expires_at: string | null;
  created_at: string;
  updated_at: string;
}

export interface WebhookList {
  event_types: string[];
  webhook_endpoints: WebhookEndpoint[];
}

export interface Delivery {
  id: string;
  event_type: string;
  test: boolean;
  state: 'pending' | 'delivered' | 'failed';
  payload: unknown;
  next_attempt_at: string | null;
  created_at: string;
  delivered_at: string | null;
  attempts: {
    number: number;
    manual: boolean;
    started_at: string;
    duration_ms: number;
    status: number | null;
    error: string | null;
    response_excerpt: string;
  }[];
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
    failures: { session_id: string; seq: number; agent: string; code: string; at: string }[];
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
