-- Who owns what: organizations, their keys, agents, releases, budgets and credentials.

create table organizations (
  id integer generated always as identity primary key,
  slug text not null unique,
  name text not null,
  status text not null default 'active' check (status in ('active', 'suspended')),
  default_agent_id integer,
  transcripts_access boolean not null default true,
  alert_thresholds json not null default '[50,80,100]',
  subscription_plan text,
  subscription_status text check (subscription_status in ('active', 'past_due', 'canceled')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

-- One row per org, changed by every turn: apart from organizations, so that reading an org never waits for a turn.
create table budgets (
  org_id integer primary key references organizations (id),
  credits_micros bigint,                        -- prepaid, as last set; null: unlimited
  credits_spent_micros bigint not null default 0, -- since credits_micros was set
  total_tokens_cap bigint,
  tokens_used bigint not null default 0,
  instance_spend_cap_micros bigint,
  spent_micros bigint not null default 0,       -- ever
  reserved_tokens bigint not null default 0,
  reserved_micros bigint not null default 0,
  threshold_fired integer not null default 0,   -- highest alert threshold reported since the budget was last changed
  updated_at timestamptz not null default now()
);

create table instance_spend (
  org_id integer not null,
  agent_id integer not null,
  instance_key text not null,
  spent_micros bigint not null default 0,
  reserved_micros bigint not null default 0,
  primary key (org_id, agent_id, instance_key)
);

create table api_keys (
  id integer generated always as identity primary key,
  org_id integer not null references organizations (id),
  name text not null,
  prefix text not null,
  hash text not null unique,
  scopes json not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index api_keys_of_org on api_keys (org_id, id);

create table agents (
  id integer generated always as identity primary key,
  org_id integer not null references organizations (id),
  slug text not null,
  name text not null,
  description text not null default '',
  active_version integer,
  session_count integer not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index agents_by_slug on agents (org_id, slug) where deleted_at is null;

create table releases (
  org_id integer not null,
  agent_id integer not null references agents (id),
  version integer not null,
  state text not null check (state in ('pending', 'materializing', 'materialized', 'failed')),
  error text,
  config json not null,
  pinned_tools json not null default '[]',
  created_at timestamptz not null default now(),
  materialized_at timestamptz,
  primary key (agent_id, version)
);

create table model_credentials (
  org_id integer not null references organizations (id),
  name text not null,              -- a provider, or the `credential` of an MCP server
  ciphertext text not null,        -- AES-256-GCM under PARLEY_SECRET_KEY
  last_four text not null,
  updated_at timestamptz not null default now(),
  primary key (org_id, name)
);

create table usage_daily (
  org_id integer not null,
  day date not null,
  agent_id integer not null,
  model text not null,
  end_user_id text not null,       -- '' for turns without one
  turns integer not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cached_tokens bigint not null default 0,
  cost_micros bigint not null default 0,
  primary key (org_id, day, agent_id, model, end_user_id)
);

create table invoices (
  id integer generated always as identity primary key,
  org_id integer not null references organizations (id),
  amount_cents integer not null,
  status text not null,
  created_at timestamptz not null default now()
);

-- Append-only and chained per org; the trigger refuses any change.
create table audit_events (
  id bigint generated always as identity primary key,
  org_id integer not null,
  created_at timestamptz not null,
  action text not null,
  actor_email text,
  actor_user_id text,
  api_key_prefix text,
  subject_type text not null,
  subject_id text not null,
  ip_address text,
  user_agent text,
  metadata json not null,
  previous_hash text not null,
  hash text not null
);
create index audit_events_of_org on audit_events (org_id, id);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% rows are append-only', tg_table_name;
end $$;
create trigger audit_events_append_only before update or delete on audit_events
  for each row execute function refuse_change();
create trigger audit_events_no_truncate before truncate on audit_events
  for each statement execute function refuse_change();

-- Answers of keyed requests, kept for 24 h. A turn's answer is made again from the log; any other is stored, encrypted.
create table idempotency_keys (
  org_id integer not null,
  key text not null,
  fingerprint text not null,
  turn_id text,
  response text,
  created_at timestamptz not null default now(),
  primary key (org_id, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- Small facts of the installation: signing keys, the first-owner link.
create table installation (
  key text primary key,
  value json not null,
  updated_at timestamptz not null default now()
);
