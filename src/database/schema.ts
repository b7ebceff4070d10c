import type { ColumnType, Generated } from 'kysely';
import type { Role } from '../accounts/principal.ts';
import type { PermissionMode, PinnedTool, ReleaseConfig } from '../release-config.ts';
import type { ApprovalRequested } from '../session/events.ts';
import type { Participant } from '../session/participants.ts';
import type { PendingInput } from '../session/pending-input.ts';
import type { CreatedAt, Json, JsonWithDefault, Nullable } from './columns.ts';
import type { DeliveriesTable, DeliveryAttemptsTable, WebhookEndpointsTable } from './outbox-tables.ts';

export interface Schema {
  organizations: OrganizationsTable;
  budgets: BudgetsTable;
  instance_spend: {
    org_id: number;
    agent_id: number;
    instance_key: string;
    spent_micros: Generated<number>;
    reserved_micros: Generated<number>;
  };
  api_keys: ApiKeysTable;
  agents: AgentsTable;
  releases: ReleasesTable;
  model_credentials: { org_id: number; name: string; ciphertext: string; last_four: string; updated_at: CreatedAt };
  usage_daily: UsageDailyTable;
  invoices: { id: Generated<number>; org_id: number; amount_cents: number; status: string; created_at: CreatedAt };
  audit_events: AuditEventsTable;
  idempotency_keys: {
    org_id: number;
    key: string;
    fingerprint: string;
    turn_id: Nullable<string>;
    response: Nullable<string>;
    held_until: Nullable<Date>;
    created_at: CreatedAt;
  };
  installation: { key: string; value: Json<unknown>; updated_at: CreatedAt };
  sessions: SessionsTable;
  events: { org_id: number; session_id: string; seq: number; turn_id: string; type: string; data: Json<unknown>; created_at: CreatedAt };
  turns: TurnsTable;
  approvals: ApprovalsTable;
  deleted_responses: { id: string; org_id: number; session_id: string; turn_id: string; while_running: Generated<boolean> };
  session_counts: { agent_id: number; release_version: number; surface: Surface; sessions: number };
  session_participants: { session_id: string; name: string; org_id: number; created_at: Date };
  workspace_files: {
    org_id: number;
    agent_id: number;
    instance_key: string;
    path: string;
    content: Uint8Array;
    size: number;
    updated_at: CreatedAt;
  };
  users: UsersTable;
  user_accounts: {
    id: string;
    user_id: string;
    account_id: string;
    provider_id: string;
    password: Nullable<string>;
    created_at: CreatedAt;
    updated_at: CreatedAt;
  };
  user_sessions: { id: string; user_id: string; token: string; expires_at: Date };
  members: { org_id: number; user_id: string; role: Role; created_at: CreatedAt };
  invitations: InvitationsTable;
  webhook_endpoints: WebhookEndpointsTable;
  webhook_events: {
    id: Generated<string>;
    org_id: number;
    type: string;
    data: Json<unknown>;
    created_at: CreatedAt;
    fanned_out: Generated<boolean>;
  };
  deliveries: DeliveriesTable;
  delivery_attempts: DeliveryAttemptsTable;
}

interface OrganizationsTable {
  id: Generated<number>;
  slug: string;
  name: string;
  status: ColumnType<'active' | 'suspended', 'active' | 'suspended' | undefined, 'active' | 'suspended'>;
  default_agent_id: Nullable<number>;
  transcripts_access: Generated<boolean>;
  alert_thresholds: JsonWithDefault<number[]>;
  subscription_plan: Nullable<string>;
  subscription_status: Nullable<'active' | 'past_due' | 'canceled'>;
  created_at: CreatedAt;
  updated_at: CreatedAt;
}

interface BudgetsTable {
  org_id: number;
  credits_micros: Nullable<number>;
  credits_spent_micros: Generated<number>;
  total_tokens_cap: Nullable<number>;
  tokens_used: Generated<number>;
  instance_spend_cap_micros: Nullable<number>;
  spent_micros: Generated<number>;
  reserved_tokens: Generated<number>;
  reserved_micros: Generated<number>;
  /** The sizes of all files in the workspaces of the organization, added up. */
  file_bytes: Generated<number>;
  threshold_fired: Generated<number>;
  updated_at: CreatedAt;
}

interface ApiKeysTable {
  id: Generated<number>;
  org_id: number;
  name: string;
  prefix: string;
  hash: string;
  scopes: Json<string[]>;
  manages_owners: Generated<boolean>;
  created_at: CreatedAt;
  last_used_at: Nullable<Date>;
  revoked_at: Nullable<Date>;
}

interface AgentsTable {
  id: Generated<number>;
  org_id: number;
  slug: string;
  name: string;
  description: Generated<string>;
  active_version: Nullable<number>;
  session_count: Generated<number>;
  created_at: CreatedAt;
  updated_at: CreatedAt;
  deleted_at: Nullable<Date>;
}

export type ReleaseState = 'pending' | 'materializing' | 'materialized' | 'failed';

interface ReleasesTable {
  org_id: number;
  agent_id: number;
  version: number;
  state: ReleaseState;
  error: Nullable<string>;
  config: Json<ReleaseConfig>;
  pinned_tools: JsonWithDefault<PinnedTool[]>;
  created_at: CreatedAt;
  materialized_at: Nullable<Date>;
}

interface UsersTable {
  id: string;
  name: string;
  email: string;
  email_verified: Generated<boolean>;
  created_at: CreatedAt;
  updated_at: CreatedAt;
}

interface InvitationsTable {
  id: Generated<number>;
  org_id: number;
  email: Nullable<string>;
  role: Role;
  highest_role: Nullable<Role>;
  token_hash: string;
  created_at: CreatedAt;
  expires_at: Date;
  accepted_at: Nullable<Date>;
  revoked_at: Nullable<Date>;
}

interface UsageDailyTable {
  org_id: number;
  day: string;
  agent_id: number;
  model: string;
  end_user_id: string;
  turns: number;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  cost_micros: number;
}

interface AuditEventsTable {
  id: Generated<number>;
  org_id: number;
  created_at: Date;
  action: string;
  actor_email: Nullable<string>;
  actor_user_id: Nullable<string>;
  api_key_prefix: Nullable<string>;
  subject_type: string;
  subject_id: string;
  ip_address: Nullable<string>;
  user_agent: Nullable<string>;
  metadata: Json<Record<string, unknown>>;
  previous_hash: string;
  hash: string;
}

/** The wire that a session was opened on. */
export type Surface = 'native' | 'managed' | 'chat' | 'responses' | 'gateway';

interface SessionsTable {
  id: string;
  org_id: number;
  agent_id: number;
  release_version: number;
  surface: Surface;
  status: ColumnType<'active' | 'stopped', 'active' | 'stopped' | undefined, 'active' | 'stopped'>;
  metadata: Json<Record<string, unknown>>;
  end_user_id: Nullable<string>;
  is_visitor: Generated<boolean>;
  instance_key: string;
  permission_mode: Nullable<PermissionMode>;
  current_agent: string;
  parent_id: Nullable<string>;
  participants: JsonWithDefault<Participant[]>;
  pending_input: JsonWithDefault<PendingInput | null>;
  active_turn_id: Nullable<string>;
  queued_turns: Generated<number>;
  staged_files: JsonWithDefault<string[]>;
  stored: Generated<boolean>;
  last_seq: Generated<number>;
  message_count: Generated<number>;
  last_message_at: Nullable<Date>;
  created_at: CreatedAt;
  updated_at: CreatedAt;
}

interface TurnsTable {
  id: string;
  org_id: number;
  agent_id: number;
  session_id: string;
  position: Generated<number>;
  state: 'queued' | 'running' | 'paused' | 'ended';
  input: Json<unknown>;
  end_user_id: Nullable<string>;
  fingerprint: Nullable<string>;
  reserved_tokens: Generated<number>;
  reserved_micros: Generated<number>;
  reserved_credit_micros: Generated<number>;
  process_id: Nullable<string>;
  lease_until: Nullable<Date>;
  interrupted: Generated<boolean>;
  first_seq: Nullable<number>;
  last_seq: Nullable<number>;
  created_at: CreatedAt;
  ended_at: Nullable<Date>;
}

interface ApprovalsTable {
  request_id: string;
  org_id: number;
  session_id: string;
  turn_id: string;
  call_id: string;
  request: Json<ApprovalRequested>;
  state: Generated<string>;
  decision: Nullable<string>;
  resolved_seq: Nullable<number>;
  created_at: CreatedAt;
  resolved_at: Nullable<Date>;
}
