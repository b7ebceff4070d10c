-- A conversation: its head (sessions), its log (events), its queue of turns, and what they asked for.

create table sessions (
  id text primary key,
  org_id integer not null,
  agent_id integer not null,
  release_version integer not null, -- pinned when the session is created
  surface text not null,            -- native | managed | chat | responses | gateway
  status text not null default 'active' check (status in ('active', 'stopped')),
  metadata json not null default '{}',
  end_user_id text,
  instance_key text not null,       -- the durable instance boundary within the agent
  permission_mode text,
  current_agent text not null,
  parent_id text,
  participants json not null default '[]',
  pending_input json,
  active_turn_id text,              -- the turn that runs or is paused
  queued_turns integer not null default 0,
  staged_files json not null default '[]',
  last_seq integer not null default 0,
  message_count integer not null default 0,
  last_message_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index sessions_by_activity on sessions (org_id, agent_id, updated_at desc, id desc);
create index sessions_of_end_user on sessions (org_id, agent_id, end_user_id, updated_at desc, id desc) where end_user_id is not null;
create index sessions_pending on sessions (org_id, updated_at desc) where pending_input is not null;

create table events (
  org_id integer not null,
  session_id text not null,
  seq integer not null,
  turn_id text not null,
  type text not null,
  data json not null,
  created_at timestamptz not null,
  primary key (session_id, seq)
);

create table turns (
  id text primary key,
  org_id integer not null,
  agent_id integer not null,
  session_id text not null,
  position bigint generated always as identity, -- the order of arrival: what waits in a session runs in it
  state text not null check (state in ('queued', 'running', 'paused', 'ended')),
  input json not null,              -- the data of its message-received event
  end_user_id text,
  fingerprint text,                 -- credential, path and body: what a client's own retry attaches by
  reserved_tokens bigint not null default 0,  -- what it holds of the budget while it waits or runs
  reserved_micros bigint not null default 0,
  process_id text,                  -- who runs it, and so the only one that may write for it
  lease_until timestamptz,          -- that process is taken for dead after this, and another may take the turn
  interrupted boolean not null default false,
  first_seq integer,                -- of its message-received event; null while it waits
  last_seq integer,                 -- of its terminal event
  created_at timestamptz not null default now(),
  ended_at timestamptz
);
create unique index one_active_turn on turns (session_id) where state in ('running', 'paused');
create index queued_turns on turns (session_id, position) where state = 'queued';
create index leased_turns on turns (lease_until) where state = 'running';
create index turns_by_fingerprint on turns (fingerprint, created_at) where fingerprint is not null;

-- An approval is a row of ours, answered once; a client can only name it.
create table approvals (
  request_id text primary key,
  org_id integer not null,
  session_id text not null,
  turn_id text not null,
  call_id text not null,
  request json not null,            -- the data of its approval-requested event
  state text not null default 'pending' check (state in ('pending', 'resolved', 'withdrawn')),
  decision text,
  resolved_seq integer,             -- of its approval-resolved event: the continuation starts after it
  created_at timestamptz not null default now(),
  resolved_at timestamptz
);
create index pending_approvals on approvals (org_id, created_at) where state = 'pending';

create table workspace_files (
  org_id integer not null,
  agent_id integer not null,
  instance_key text not null,
  path text not null,
  content bytea not null,
  size integer not null,
  updated_at timestamptz not null default now(),
  primary key (org_id, agent_id, instance_key, path)
);

-- Deliveries to the outside. A webhook event is written with the change it reports; the worker fans it out.
create table webhook_endpoints (
  id integer generated always as identity primary key,
  org_id integer not null references organizations (id),
  name text not null,
  url text not null,
  event_types json not null default '[]',     -- empty: every supported type
  secret_ciphertext text not null,
  previous_secret_ciphertext text,
  previous_secret_until timestamptz,
  enabled boolean not null default true,
  disabled_reason text,
  consecutive_failures integer not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index webhook_endpoints_of_org on webhook_endpoints (org_id, id);

create table webhook_events (
  id uuid primary key default gen_random_uuid(),
  org_id integer not null,
  type text not null,
  data json not null,
  created_at timestamptz not null default now(),
  fanned_out boolean not null default false
);
create index webhook_events_waiting on webhook_events (created_at) where not fanned_out;

-- Writes an event for the worker, unless the org has no endpoint that could want it.
create function emit_webhook(for_org integer, event_type text, event_data json) returns void language sql as $$
  insert into webhook_events (org_id, type, data)
  select for_org, event_type, event_data
  where exists (select 1 from webhook_endpoints where org_id = for_org and enabled)
$$;
