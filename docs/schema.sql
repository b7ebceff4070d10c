-- Generated from a migrated database, to be read and not to be run: npm run generate

create type file_change as (
  path text,
  content text,
  size integer,
  ahead text
);

create type turn_operation as (
  kind text,
  org integer,
  session text,
  turn text,
  events json,
  messages integer,
  input json,
  "endUserId" text,
  fingerprint text,
  "idempotencyKey" text,
  "idempotencyFingerprint" text,
  "waitsForApproval" boolean,
  "reserveTokens" bigint,
  "reserveMicros" bigint,
  "reserveCreditMicros" bigint,
  files json,
  "currentAgent" text,
  webhooks json,
  used json,
  request json,
  "pendingInput" json,
  "requestId" text,
  decision text,
  reason text,
  "maxFileBytes" bigint,
  "isRetry" boolean
);

create table agents (
  id integer not null generated always as identity,
  org_id integer not null,
  slug text not null,
  name text not null,
  description text not null default ''::text,
  active_version integer,
  session_count integer not null default 0,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  deleted_at timestamp with time zone,
  constraint agents_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id),
  constraint agents_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX agents_by_slug ON public.agents USING btree (org_id, slug) WHERE (deleted_at IS NULL);
CREATE INDEX agents_that_had_slug ON public.agents USING btree (slug, org_id);

create table api_keys (
  id integer not null generated always as identity,
  org_id integer not null,
  name text not null,
  prefix text not null,
  hash text not null,
  scopes json not null,
  created_at timestamp with time zone not null default now(),
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  manages_owners boolean not null default true,
  constraint api_keys_hash_key UNIQUE (hash),
  constraint api_keys_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id),
  constraint api_keys_pkey PRIMARY KEY (id)
);
CREATE INDEX api_keys_of_org ON public.api_keys USING btree (org_id, id);

create table approvals (
  request_id text not null,
  org_id integer not null,
  session_id text not null,
  turn_id text not null,
  call_id text not null,
  request json not null,
  state text not null default 'pending'::text,
  decision text,
  resolved_seq integer,
  created_at timestamp with time zone not null default now(),
  resolved_at timestamp with time zone,
  constraint approvals_pkey PRIMARY KEY (request_id),
  constraint approvals_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'resolved'::text, 'withdrawn'::text])))
);
CREATE INDEX approvals_of_session ON public.approvals USING btree (session_id) WHERE (decision = 'approve_session'::text);
CREATE INDEX pending_approvals ON public.approvals USING btree (org_id, created_at) WHERE (state = 'pending'::text);

create table audit_events (
  id bigint not null generated always as identity,
  org_id integer not null,
  created_at timestamp with time zone not null,
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
  hash text not null,
  constraint audit_events_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_events_by_action ON public.audit_events USING btree (org_id, action, id);
CREATE INDEX audit_events_by_time ON public.audit_events USING btree (org_id, created_at);
CREATE INDEX audit_events_of_org ON public.audit_events USING btree (org_id, id);
CREATE TRIGGER audit_events_append_only BEFORE DELETE OR UPDATE ON public.audit_events FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON public.audit_events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

create table budgets (
  org_id integer not null,
  credits_micros bigint,
  credits_spent_micros bigint not null default 0,
  total_tokens_cap bigint,
  tokens_used bigint not null default 0,
  instance_spend_cap_micros bigint,
  spent_micros bigint not null default 0,
  reserved_tokens bigint not null default 0,
  reserved_micros bigint not null default 0,
  threshold_fired integer not null default 0,
  updated_at timestamp with time zone not null default now(),
  file_bytes bigint not null default 0,
  constraint budgets_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id),
  constraint budgets_pkey PRIMARY KEY (org_id)
);

create table deleted_responses (
  id text not null,
  org_id integer not null,
  session_id text not null,
  turn_id text not null,
  while_running boolean not null default false,
  constraint deleted_responses_pkey PRIMARY KEY (id)
);
CREATE INDEX deleted_responses_of_session ON public.deleted_responses USING btree (session_id);
CREATE INDEX deleted_while_running ON public.deleted_responses USING btree (session_id) WHERE while_running;

create table deliveries (
  id uuid not null,
  "position" bigint not null generated always as identity,
  org_id integer not null,
  lane text not null,
  endpoint_id integer,
  event_id uuid,
  gateway_url text,
  type text not null,
  body text not null,
  is_test boolean not null default false,
  state text not null default 'pending'::text,
  attempt_count integer not null default 0,
  next_attempt_at timestamp with time zone,
  resend_requested boolean not null default false,
  due_at timestamp with time zone,
  claimed_by text,
  created_at timestamp with time zone not null,
  delivered_at timestamp with time zone,
  claimed_manually boolean not null default false,
  constraint deliveries_check CHECK (((endpoint_id IS NULL) <> (gateway_url IS NULL))),
  constraint deliveries_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints(id) ON DELETE CASCADE,
  constraint deliveries_pkey PRIMARY KEY (id),
  constraint deliveries_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
);
CREATE INDEX deliveries_by_age ON public.deliveries USING btree (created_at);
CREATE INDEX deliveries_claimed ON public.deliveries USING btree (claimed_by) WHERE (claimed_by IS NOT NULL);
CREATE INDEX deliveries_due ON public.deliveries USING btree (lane, due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX deliveries_held_back ON public.deliveries USING btree (endpoint_id, "position") WHERE ((state = 'pending'::text) AND (due_at IS NULL));
CREATE INDEX deliveries_of_endpoint ON public.deliveries USING btree (endpoint_id, "position" DESC);
CREATE INDEX deliveries_of_endpoint_by_state ON public.deliveries USING btree (endpoint_id, state, "position" DESC);
CREATE UNIQUE INDEX deliveries_of_event ON public.deliveries USING btree (endpoint_id, event_id) WHERE (event_id IS NOT NULL);

create table delivery_attempts (
  delivery_id uuid not null,
  number integer not null,
  manual boolean not null,
  started_at timestamp with time zone not null,
  duration_ms integer not null,
  status integer,
  error text,
  response_excerpt text not null default ''::text,
  constraint delivery_attempts_delivery_id_fkey FOREIGN KEY (delivery_id) REFERENCES deliveries(id) ON DELETE CASCADE,
  constraint delivery_attempts_pkey PRIMARY KEY (delivery_id, number)
);

create table events (
  org_id integer not null,
  session_id text not null,
  seq integer not null,
  turn_id text not null,
  type text not null,
  data json not null,
  created_at timestamp with time zone not null,
  constraint events_pkey PRIMARY KEY (session_id, seq)
);

create table gateway_events (
  org_id integer not null,
  event_id text not null,
  target text not null,
  state text not null default 'received'::text,
  session_id text,
  turn_id text,
  event json not null,
  created_at timestamp with time zone not null default now(),
  constraint gateway_events_pkey PRIMARY KEY (org_id, event_id, target),
  constraint gateway_events_state_check CHECK ((state = ANY (ARRAY['received'::text, 'admitted'::text, 'done'::text])))
);
CREATE INDEX gateway_events_by_age ON public.gateway_events USING btree (created_at);
CREATE INDEX gateway_events_open ON public.gateway_events USING btree (created_at) WHERE (state <> 'done'::text);
CREATE INDEX gateway_events_owed ON public.gateway_events USING btree (session_id) WHERE (state = 'admitted'::text);

create table idempotency_keys (
  org_id integer not null,
  key text not null,
  fingerprint text not null,
  turn_id text,
  response text,
  created_at timestamp with time zone not null default now(),
  held_until timestamp with time zone,
  constraint idempotency_keys_pkey PRIMARY KEY (org_id, key)
);
CREATE INDEX answers_to_retries ON public.idempotency_keys USING btree (created_at) WHERE (key ~~ 'retry
%'::text);
CREATE INDEX idempotency_keys_by_age ON public.idempotency_keys USING btree (created_at);

create table installation (
  key text not null,
  value json not null,
  updated_at timestamp with time zone not null default now(),
  constraint installation_pkey PRIMARY KEY (key)
);

create table instance_spend (
  org_id integer not null,
  agent_id integer not null,
  instance_key text not null,
  spent_micros bigint not null default 0,
  reserved_micros bigint not null default 0,
  constraint instance_spend_pkey PRIMARY KEY (org_id, agent_id, instance_key)
);

create table invitations (
  id integer not null generated always as identity,
  org_id integer not null,
  email text,
  role text not null,
  token_hash text not null,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  accepted_at timestamp with time zone,
  revoked_at timestamp with time zone,
  highest_role text,
  constraint invitations_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id),
  constraint invitations_pkey PRIMARY KEY (id),
  constraint invitations_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text]))),
  constraint invitations_token_hash_key UNIQUE (token_hash)
);
CREATE INDEX invitations_of_org ON public.invitations USING btree (org_id, id);

create table invoices (
  id integer not null generated always as identity,
  org_id integer not null,
  amount_cents integer not null,
  status text not null,
  created_at timestamp with time zone not null default now(),
  constraint invoices_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id),
  constraint invoices_pkey PRIMARY KEY (id)
);

create table members (
  org_id integer not null,
  user_id text not null,
  role text not null,
  created_at timestamp with time zone not null default now(),
  constraint members_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id),
  constraint members_pkey PRIMARY KEY (org_id, user_id),
  constraint members_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text]))),
  constraint members_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id)
);
CREATE INDEX members_of_user ON public.members USING btree (user_id);

create table migrations (
  name text not null,
  applied_at timestamp with time zone not null default now(),
  constraint migrations_pkey PRIMARY KEY (name)
);

create table model_credentials (
  org_id integer not null,
  name text not null,
  ciphertext text not null,
  last_four text not null,
  updated_at timestamp with time zone not null default now(),
  constraint model_credentials_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id),
  constraint model_credentials_pkey PRIMARY KEY (org_id, name)
);

create table organizations (
  id integer not null generated always as identity,
  slug text not null,
  name text not null,
  status text not null default 'active'::text,
  default_agent_id integer,
  transcripts_access boolean not null default true,
  alert_thresholds json not null default '[50,80,100]'::json,
  subscription_plan text,
  subscription_status text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint organizations_pkey PRIMARY KEY (id),
  constraint organizations_slug_key UNIQUE (slug),
  constraint organizations_status_check CHECK ((status = ANY (ARRAY['active'::text, 'suspended'::text]))),
  constraint organizations_subscription_status_check CHECK ((subscription_status = ANY (ARRAY['active'::text, 'past_due'::text, 'canceled'::text])))
);

create table releases (
  org_id integer not null,
  agent_id integer not null,
  version integer not null,
  state text not null,
  error text,
  config json not null,
  pinned_tools json not null default '[]'::json,
  created_at timestamp with time zone not null default now(),
  materialized_at timestamp with time zone,
  constraint releases_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id),
  constraint releases_pkey PRIMARY KEY (agent_id, version),
  constraint releases_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'materializing'::text, 'materialized'::text, 'failed'::text])))
);
CREATE INDEX releases_unfinished ON public.releases USING btree (created_at) WHERE (state = ANY (ARRAY['pending'::text, 'materializing'::text]));

create table session_counts (
  agent_id integer not null,
  release_version integer not null,
  surface text not null,
  sessions integer not null,
  constraint session_counts_pkey PRIMARY KEY (agent_id, release_version, surface)
);

create table session_participants (
  session_id text not null,
  name text not null,
  org_id integer not null,
  created_at timestamp with time zone not null,
  constraint session_participants_pkey PRIMARY KEY (session_id, name)
);
CREATE INDEX sessions_of_participant ON public.session_participants USING btree (org_id, name, created_at, session_id);

create table sessions (
  id text not null,
  org_id integer not null,
  agent_id integer not null,
  release_version integer not null,
  surface text not null,
  status text not null default 'active'::text,
  metadata json not null default '{}'::json,
  end_user_id text,
  instance_key text not null,
  permission_mode text,
  current_agent text not null,
  parent_id text,
  participants json not null default '[]'::json,
  pending_input json,
  active_turn_id text,
  queued_turns integer not null default 0,
  staged_files json not null default '[]'::json,
  last_seq integer not null default 0,
  message_count integer not null default 0,
  last_message_at timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  is_visitor boolean not null default false,
  stored boolean not null default true,
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_status_check CHECK ((status = ANY (ARRAY['active'::text, 'stopped'::text])))
);
CREATE INDEX sessions_by_activity ON public.sessions USING btree (agent_id, updated_at DESC, id DESC);
CREATE INDEX sessions_of_end_user ON public.sessions USING btree (agent_id, end_user_id, updated_at DESC, id DESC) WHERE (end_user_id IS NOT NULL);
CREATE INDEX sessions_of_group ON public.sessions USING btree (agent_id, surface, release_version, updated_at DESC, id DESC);
CREATE INDEX sessions_pending ON public.sessions USING btree (org_id, updated_at DESC) WHERE (pending_input IS NOT NULL);
CREATE INDEX sessions_stopped ON public.sessions USING btree (agent_id, updated_at DESC, id DESC) WHERE (status = 'stopped'::text);
CREATE INDEX unstored_sessions ON public.sessions USING btree (updated_at) WHERE (NOT stored);
CREATE CONSTRAINT TRIGGER dropped_session_counted AFTER DELETE ON public.sessions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_dropped_session();
CREATE TRIGGER new_sessions_counted AFTER INSERT ON public.sessions REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_sessions();
CREATE TRIGGER participants_remembered AFTER UPDATE OF participants ON public.sessions FOR EACH ROW EXECUTE FUNCTION remember_participants();

create table turns (
  id text not null,
  org_id integer not null,
  agent_id integer not null,
  session_id text not null,
  "position" bigint not null generated always as identity,
  state text not null,
  input json not null,
  end_user_id text,
  fingerprint text,
  reserved_tokens bigint not null default 0,
  reserved_micros bigint not null default 0,
  process_id text,
  lease_until timestamp with time zone,
  interrupted boolean not null default false,
  first_seq integer,
  last_seq integer,
  created_at timestamp with time zone not null default now(),
  ended_at timestamp with time zone,
  reserved_credit_micros bigint not null default 0,
  constraint turns_pkey PRIMARY KEY (id),
  constraint turns_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'paused'::text, 'ended'::text])))
);
CREATE INDEX leased_turns ON public.turns USING btree (lease_until) WHERE (state = 'running'::text);
CREATE UNIQUE INDEX one_active_turn ON public.turns USING btree (session_id) WHERE (state = ANY (ARRAY['running'::text, 'paused'::text]));
CREATE INDEX queued_turns ON public.turns USING btree (session_id, "position") WHERE (state = 'queued'::text);
CREATE INDEX turns_by_fingerprint ON public.turns USING btree (fingerprint, created_at) WHERE (fingerprint IS NOT NULL);
CREATE INDEX turns_ended ON public.turns USING btree (org_id, ended_at) WHERE (state = 'ended'::text);

create table usage_daily (
  org_id integer not null,
  day date not null,
  agent_id integer not null,
  model text not null,
  end_user_id text not null,
  turns integer not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cached_tokens bigint not null default 0,
  cost_micros bigint not null default 0,
  constraint usage_daily_pkey PRIMARY KEY (org_id, day, agent_id, model, end_user_id)
);

create table user_accounts (
  id text not null,
  user_id text not null,
  account_id text not null,
  provider_id text not null,
  password text,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamp with time zone,
  refresh_token_expires_at timestamp with time zone,
  scope text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint user_accounts_pkey PRIMARY KEY (id),
  constraint user_accounts_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX user_accounts_of_user ON public.user_accounts USING btree (user_id);

create table user_rate_limits (
  id text not null,
  key text not null,
  count integer not null,
  last_request bigint not null,
  constraint user_rate_limits_key_key UNIQUE (key),
  constraint user_rate_limits_pkey PRIMARY KEY (id)
);

create table user_sessions (
  id text not null,
  user_id text not null,
  token text not null,
  expires_at timestamp with time zone not null,
  ip_address text,
  user_agent text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint user_sessions_pkey PRIMARY KEY (id),
  constraint user_sessions_token_key UNIQUE (token),
  constraint user_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX user_sessions_of_user ON public.user_sessions USING btree (user_id);

create table user_verifications (
  id text not null,
  identifier text not null,
  value text not null,
  expires_at timestamp with time zone not null,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint user_verifications_pkey PRIMARY KEY (id)
);

create table users (
  id text not null,
  name text not null,
  email text not null,
  email_verified boolean not null default false,
  image text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint users_email_key UNIQUE (email),
  constraint users_pkey PRIMARY KEY (id)
);

create table webhook_endpoints (
  id integer not null generated always as identity,
  org_id integer not null,
  name text not null,
  url text not null,
  event_types json not null default '[]'::json,
  secret_ciphertext text not null,
  previous_secret_ciphertext text,
  previous_secret_until timestamp with time zone,
  enabled boolean not null default true,
  disabled_reason text,
  consecutive_failures integer not null default 0,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint webhook_endpoints_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id),
  constraint webhook_endpoints_pkey PRIMARY KEY (id)
);
CREATE INDEX webhook_endpoints_of_org ON public.webhook_endpoints USING btree (org_id, id);

create table webhook_events (
  id uuid not null default gen_random_uuid(),
  org_id integer not null,
  type text not null,
  data json not null,
  created_at timestamp with time zone not null default now(),
  fanned_out boolean not null default false,
  constraint webhook_events_pkey PRIMARY KEY (id)
);
CREATE INDEX webhook_events_by_age ON public.webhook_events USING btree (created_at);
CREATE INDEX webhook_events_of_org ON public.webhook_events USING btree (org_id, created_at);
CREATE INDEX webhook_events_waiting ON public.webhook_events USING btree (created_at) WHERE (NOT fanned_out);
CREATE INDEX webhook_events_waiting_of_org ON public.webhook_events USING btree (org_id, created_at) WHERE (NOT fanned_out);

create table workspace_files (
  org_id integer not null,
  agent_id integer not null,
  instance_key text not null,
  path text not null,
  content bytea not null,
  size integer not null,
  updated_at timestamp with time zone not null default now(),
  constraint workspace_files_pkey PRIMARY KEY (org_id, agent_id, instance_key, path)
);
CREATE INDEX files_stored_ahead ON public.workspace_files USING btree (updated_at) WHERE (instance_key ~~ 'ahead:%'::text);

-- From 0014-alike-turns.sql.
CREATE OR REPLACE FUNCTION public.add_events(s sessions, for_turn text, new_events json)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
  select s.org_id, s.id, s.last_seq + number, for_turn, type, data, now()
  from rows from (json_to_recordset(new_events) as (type text, data json)) with ordinality as entry (type, data, number);
end $function$;

-- From 0003-turns.sql.
-- Whoever speaks in a session takes part in it, once.
CREATE OR REPLACE FUNCTION public.add_participant(for_session text, participant text, kind text, gateway_url text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update sessions set participants = (participants::jsonb || jsonb_build_array(
    jsonb_strip_nulls(jsonb_build_object('name', participant, 'type', coalesce(kind, 'human'), 'gateway_url', gateway_url))))::json
  where id = for_session
    and not exists (select 1 from json_array_elements(participants) p where p ->> 'name' = participant);
end $function$;

-- From 0040-retries-at-admission.sql.
-- Messages to sessions that are free: their turns begin. Not those with an idempotency key, sent again by a client library,
-- with a participant who may be new to the session, or with staged files. All parts of the statement see the tables as they were
-- before it, and the sessions are locked: `message` is the same for each.
CREATE OR REPLACE FUNCTION public.admit_alike(batch turn_operation[], sessions_once text[], orgs integer[], process text, lease_ms integer)
 RETURNS TABLE(place bigint, result json)
 LANGUAGE plpgsql
AS $function$
begin
  return query
    with message as materialized (
      select o.ordinality as place, o.turn, o.input, o."endUserId" as end_user_id, o.fingerprint,
        s.id as session_id, s.org_id, s.agent_id, s.last_seq, coalesce(o.input ->> 'agent', s.current_agent) as agent
      from unnest(batch) with ordinality o join sessions s on s.id = o.session and s.org_id = o.org
      where o.kind = 'admit' and o."idempotencyKey" is null and o."isRetry" is not true and o.input ->> 'participantName' is null
        and o.session = any (sessions_once) and o.org = any (orgs)
        and s.status = 'active' and s.active_turn_id is null and s.pending_input is null and s.staged_files::text = '[]'
    ), new_turns as (
      insert into turns (id, org_id, agent_id, session_id, state, input, end_user_id, fingerprint, process_id, lease_until, first_seq)
      select m.turn, m.org_id, m.agent_id, m.session_id, 'running', m.input, m.end_user_id, m.fingerprint,
        process, now() + lease_ms * interval '1 millisecond', m.last_seq + 1
      from message m
    ), new_events as (
      insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
      select m.org_id, m.session_id, m.last_seq + e.number, m.turn, e.type, e.data, now()
      from message m cross join lateral (
        values (1, 'message-received', m.input), (2, 'turn-started', json_build_object('agent', m.agent))) e (number, type, data)
    ), heads as (
      update sessions s set last_seq = s.last_seq + 2, message_count = s.message_count + 1, last_message_at = now(), updated_at = now(),
        active_turn_id = m.turn
      from message m where s.id = m.session_id
    )
    select m.place, json_build_object('status', 'started', 'turn', m.turn, 'started', json_build_object(
      'turn', m.turn, 'session', m.session_id, 'org', m.org_id, 'seq', m.last_seq + 1, 'input', m.input, 'agent', m.agent))
    from message m;
end $function$;

-- From 0040-retries-at-admission.sql.
-- Takes a message: gives it its turn where the session is free, else its place in line. In this order: the session, the
-- idempotency key, the budget, the session's state; so that a repetition is answered as the first was, whatever has changed
-- since. A refusal gives the key back: nothing was done under it. What a client library sends again is answered with the turn that
-- it started, if there is one, or with what was kept of it when its session was deleted. The row of `budgets` is locked: nobody
-- else is starting that turn.
CREATE OR REPLACE FUNCTION public.admit_turn(operation turn_operation, process text, lease_ms integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  s sessions;
  key_row idempotency_keys;
  earlier text;
  refusal text;
  limited boolean;
  message json;
  sender text := operation.input ->> 'participantName';
begin
  select * into s from sessions where id = operation.session and org_id = operation.org;
  if not found then return json_build_object('status', 'not-found'); end if;
  if operation."idempotencyKey" is not null then
    delete from idempotency_keys where org_id = s.org_id and key = operation."idempotencyKey" and created_at < now() - interval '24 hours';
    insert into idempotency_keys (org_id, key, fingerprint, turn_id)
    values (s.org_id, operation."idempotencyKey", operation."idempotencyFingerprint", operation.turn) on conflict do nothing;
    if not found then
      select * into key_row from idempotency_keys where org_id = s.org_id and key = operation."idempotencyKey";
      if key_row.fingerprint = operation."idempotencyFingerprint" and key_row.turn_id is not null then
        return json_build_object('status', 'replayed', 'turn', key_row.turn_id);
      end if;
      return json_build_object('status', 'key-reused');
    end if;
  end if;
  if operation."isRetry" then
    select id into earlier from turns
    where fingerprint = operation.fingerprint and org_id = s.org_id and created_at > now() - interval '10 minutes'
    order by created_at desc limit 1;
    if not found then
      select turn_id into earlier from idempotency_keys
      where org_id = s.org_id and key = E'retry\n' || operation.fingerprint and created_at > now() - interval '10 minutes';
    end if;
    if earlier is not null then return json_build_object('status', 'replayed', 'turn', earlier); end if;
  end if;
  limited := is_limited(s.org_id);
  refusal := budget_refusal(s.org_id, s.agent_id, s.instance_key, operation."reserveCreditMicros", operation."reserveMicros");
  if refusal is null and s.status = 'stopped' then refusal := 'stopped'; end if;
  if refusal is null and s.pending_input is not null and not operation."waitsForApproval" then refusal := 'input-pending'; end if;
  if refusal is null and s.queued_turns >= 16 then refusal := 'queue-full'; end if;
  if refusal is null and sender is not null and json_array_length(s.participants) >= 100
    and not exists (select 1 from json_array_elements(s.participants) p where p ->> 'name' = sender) then
    refusal := 'participants-full';
  end if;
  if refusal is not null then
    if operation."idempotencyKey" is not null then
      delete from idempotency_keys where org_id = s.org_id and key = operation."idempotencyKey" and turn_id = operation.turn;
    end if;
    return json_build_object('status', refusal, 'request_id', s.pending_input ->> 'request_id');
  end if;
  if limited then perform reserve_budget(s, operation."reserveTokens", operation."reserveCreditMicros", operation."reserveMicros"); end if;
  message := operation.input;
  if s.active_turn_id is null then message := with_staged_files(message, s.staged_files); end if;
  insert into turns (id, org_id, agent_id, session_id, state, input, end_user_id, fingerprint,
    reserved_tokens, reserved_micros, reserved_credit_micros, process_id, lease_until, first_seq)
  values (operation.turn, s.org_id, s.agent_id, s.id, case when s.active_turn_id is null then 'running' else 'queued' end, message,
    operation."endUserId", operation.fingerprint,
    case when limited then operation."reserveTokens" else 0 end, case when limited then operation."reserveMicros" else 0 end,
    case when limited then operation."reserveCreditMicros" else 0 end,
    case when s.active_turn_id is null then process end,
    case when s.active_turn_id is null then now() + lease_ms * interval '1 millisecond' end,
    case when s.active_turn_id is null then s.last_seq + 1 end);
  if s.active_turn_id is not null then
    update sessions set queued_turns = queued_turns + 1, updated_at = now() where id = s.id;
    return json_build_object('status', 'queued', 'turn', operation.turn, 'after', s.last_seq);
  end if;
  return json_build_object('status', 'started', 'turn', operation.turn, 'started', begin_turn(s, operation.turn, message, false));
end $function$;

-- From 0046-pauses-beside-new-sessions.sql.
-- A commit point of a running turn: `append` goes on, `pause` waits for a person, `end` settles and lets the next begin. If the files of
-- an `append` do not fit, nothing is written and it answers 'files-full'.
-- Webhook events are written whether an endpoint is enabled or not: a disabled one can be given later what it missed.
-- A `pause` that comes after an interrupt writes nothing and answers 'interrupted': the turn is to end instead. So it does where
-- the agent was deleted, and the session is stopped: nobody can answer, and what waits behind would wait as well.
CREATE OR REPLACE FUNCTION public.advance_turn(operation turn_operation, process text, lease_ms integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  s sessions;
  t turns;
  added integer := json_array_length(operation.events);
  is_end boolean := operation.kind = 'end';
begin
  select * into t from turns where id = operation.turn and process_id = process;
  if not found then return json_build_object('status', 'lost'); end if;
  select * into s from sessions where id = t.session_id;
  if operation.kind = 'pause' and not t.interrupted then
    -- Held until this commits: whoever deletes the agent next, and locks it for update, finds the question. New sessions, which count
    -- themselves in the same row, do not wait for it, nor does it wait for them: pauses take agents in no order.
    perform 1 from agents where id = s.agent_id and deleted_at is null for key share;
    if not found then
      operation.kind := 'stop';
      operation.reason := 'stop';
      return json_build_object('status', 'interrupted', 'seq', (interrupt_turn(operation, process, lease_ms) ->> 'seq')::integer + 1);
    end if;
  end if;
  if operation.kind = 'pause' and t.interrupted then return json_build_object('status', 'interrupted', 'seq', s.last_seq + 1); end if;
  if operation.files is not null and not write_files(s, operation) then return json_build_object('status', 'files-full'); end if;
  perform add_events(s, t.id, operation.events);
  update sessions set
    last_seq = last_seq + added,
    message_count = message_count + coalesce(operation.messages, 0),
    last_message_at = case when operation.messages is not null then now() else last_message_at end,
    updated_at = now(),
    current_agent = coalesce(operation."currentAgent", current_agent),
    pending_input = operation."pendingInput",
    active_turn_id = case when is_end then null else active_turn_id end
  where id = s.id;
  perform emit_webhook(s.org_id, value ->> 'type', value -> 'data') from json_array_elements(operation.webhooks) value;
  if operation.kind = 'append' then return json_build_object('status', 'done', 'seq', s.last_seq + 1, 'interrupted', t.interrupted); end if;
  perform settle_turn(s, t, operation.used);
  if is_end then
    update turns set state = 'ended', ended_at = now(), process_id = null, lease_until = null, last_seq = s.last_seq + added,
      reserved_tokens = 0, reserved_micros = 0, reserved_credit_micros = 0 where id = t.id;
    return json_build_object('status', 'done', 'seq', s.last_seq + 1,
      'next', case when s.queued_turns > 0 then start_next_turn(s.id, process, lease_ms) end);
  end if;
  insert into approvals (request_id, org_id, session_id, turn_id, call_id, request)
  values (operation.request ->> 'requestId', s.org_id, s.id, t.id, operation.request ->> 'callId', operation.request);
  update turns set state = 'paused', process_id = null, lease_until = null,
    reserved_tokens = 0, reserved_micros = 0, reserved_credit_micros = 0 where id = t.id;
  return json_build_object('status', 'done', 'seq', s.last_seq + 1);
end $function$;

-- From 0016-resumed-agent.sql.
-- Whom a turn is with: the last that it was handed to, else the one that its message names, else the session's.
CREATE OR REPLACE FUNCTION public.agent_of_turn(s sessions, of_turn text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  t turns;
begin
  select * into t from turns where id = of_turn;
  return coalesce(
    (select data ->> 'handoff' from events
     where session_id = s.id and seq >= t.first_seq and turn_id = t.id and type = 'tool-finished' and data ->> 'handoff' is not null
     order by seq desc limit 1),
    t.input ->> 'agent',
    s.current_agent);
end $function$;

-- From 0003-turns.sql.
-- Appends to the log of a locked session and moves its head. Returns the first seq.
CREATE OR REPLACE FUNCTION public.append_events(s sessions, for_turn text, new_events json)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
begin
  perform add_events(s, for_turn, new_events);
  update sessions set last_seq = last_seq + json_array_length(new_events), updated_at = now() where id = s.id;
  return s.last_seq + 1;
end $function$;

-- From 0038-file-bytes.sql.
-- Carries out a batch: each session's operations in their order, and the alike ones of others together, ahead of the rest.
-- Plans are kept for the life of a connection, and must stay right when tables that were empty have grown: hence only plans
-- that go by an index.
CREATE OR REPLACE FUNCTION public.apply_turn_operations(operations json, process text, lease_ms integer, notify boolean)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  batch turn_operation[];
  operation turn_operation;
  sessions_all text[] := '{}';
  sessions_once text[] := '{}';
  orgs integer[] := '{}';
  unlimited integer[] := '{}';
  has_admits boolean := false;
  has_ends boolean := false;
  budget record;
  alike record;
  results json[] := '{}';
  place integer := 0;
begin
  batch := array(select o from json_populate_recordset(null::turn_operation, operations) o);
  foreach operation in array batch loop
    -- What a session does more than once in a batch has an order, and goes one by one.
    if operation.session <> all (sessions_all) then
      sessions_all := sessions_all || operation.session;
      sessions_once := sessions_once || operation.session;
    else
      sessions_once := array_remove(sessions_once, operation.session);
    end if;
    has_admits := has_admits or operation.kind = 'admit';
    has_ends := has_ends or operation.kind = 'end';
    if (operation.kind in ('admit', 'pause', 'end', 'resolve') or operation.files is not null) and operation.org <> all (orgs) then
      orgs := orgs || operation.org;
    end if;
  end loop;
  -- Always in this order, so that two processes cannot wait for each other.
  perform 1 from sessions where id = any (sessions_all) order by id for update;
  for budget in
    select b.org_id, o.subscription_status is distinct from 'past_due'
      and b.credits_micros is null and b.total_tokens_cap is null and b.instance_spend_cap_micros is null as is_unlimited
    from budgets b join organizations o on o.id = b.org_id where b.org_id = any (orgs) order by b.org_id for update of b
  loop
    if budget.is_unlimited then unlimited := unlimited || budget.org_id; end if;
  end loop;
  if has_admits then
    for alike in select * from admit_alike(batch, sessions_once, unlimited, process, lease_ms) loop
      results[alike.place] := alike.result;
    end loop;
  end if;
  if has_ends then
    for alike in select * from end_alike(batch, sessions_once, unlimited, process) loop
      results[alike.place] := alike.result;
    end loop;
  end if;
  foreach operation in array batch loop
    place := place + 1;
    if results[place] is not null then continue; end if;
    results[place] := case operation.kind
      when 'admit' then admit_turn(operation, process, lease_ms)
      when 'resolve' then resolve_approval(operation, process, lease_ms)
      when 'interrupt' then interrupt_turn(operation, process, lease_ms)
      when 'stop' then interrupt_turn(operation, process, lease_ms)
      when 'note' then note_event(operation)
      else advance_turn(operation, process, lease_ms)
    end;
  end loop;
  if notify then
    -- Forty ids fit in a notice: PostgreSQL takes less than 8,000 bytes, and an id has at most 128.
    for page in 0 .. (cardinality(sessions_all) - 1) / 40 loop
      perform pg_notify('parley', process || ' sessions ' || string_agg(id || ':' || last_seq, ' '))
      from sessions where id = any (sessions_all[page * 40 + 1 : page * 40 + 40]) having count(*) > 0;
    end loop;
  end if;
  return json_build_object('at', now(), 'results', array_to_json(results));
end $function$;

-- From 0003-turns.sql.
-- The message of a turn takes its place in the log, which is what gives the turn to its runner. Writes the session once.
-- Returns what the runner needs to begin; `message` is the turn's input with the files staged for it.
CREATE OR REPLACE FUNCTION public.begin_turn(s sessions, for_turn text, message json, was_queued boolean)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  agent text := coalesce(message ->> 'agent', s.current_agent);
  sender text := message ->> 'participantName';
begin
  perform add_events(s, for_turn, json_build_array(
    json_build_object('type', 'message-received', 'data', message),
    json_build_object('type', 'turn-started', 'data', json_build_object('agent', agent))));
  update sessions set last_seq = last_seq + 2, message_count = message_count + 1, last_message_at = now(), updated_at = now(),
    active_turn_id = for_turn, staged_files = '[]', queued_turns = queued_turns - was_queued::integer
  where id = s.id;
  if sender is not null then perform add_participant(s.id, sender, message ->> 'participantType', null); end if;
  return json_build_object('turn', for_turn, 'session', s.id, 'org', s.org_id, 'seq', s.last_seq + 1, 'input', message, 'agent', agent);
end $function$;

-- From 0003-turns.sql.
-- Why the org may not run another turn, or null. A turn may begin while anything at all is left, and what
-- running turns hold counts as used: all of them together pass a cap by less than one reservation. Of `credit_micros` only
-- counts whether it is 0: then the turn runs on the customer's own key, and credits do not stop it. `spend_micros` is not
-- looked at.
CREATE OR REPLACE FUNCTION public.budget_refusal(for_org integer, for_agent integer, for_instance text, credit_micros bigint, spend_micros bigint)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  b budgets;
  subscription text;
  instance_used bigint;
begin
  select * into b from budgets where org_id = for_org;
  select subscription_status into subscription from organizations where id = for_org;
  if subscription = 'past_due' then return 'subscription_past_due'; end if;
  if credit_micros > 0 and b.credits_micros is not null and b.credits_spent_micros + b.reserved_micros >= b.credits_micros then
    return 'credits_exhausted';
  end if;
  if b.total_tokens_cap is not null and b.tokens_used + b.reserved_tokens >= b.total_tokens_cap then
    return 'total_tokens_cap_reached';
  end if;
  if b.instance_spend_cap_micros is not null then
    select spent_micros + reserved_micros into instance_used from instance_spend
    where org_id = for_org and agent_id = for_agent and instance_key = for_instance;
    if coalesce(instance_used, 0) >= b.instance_spend_cap_micros then return 'instance_spend_cap_exceeded'; end if;
  end if;
  return null;
end $function$;

-- From 0044-session-counts.sql.
CREATE OR REPLACE FUNCTION public.count_dropped_session()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  -- Also where no row is to be seen: the next migration may just be adding it, with this session in it.
  insert into session_counts as counted (agent_id, release_version, surface, sessions)
  values (old.agent_id, old.release_version, old.surface, -1)
  on conflict (agent_id, release_version, surface) do update set sessions = counted.sessions - 1;
  return null;
end $function$;

-- From 0044-session-counts.sql.
CREATE OR REPLACE FUNCTION public.count_new_sessions()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  -- In this order, so that two processes cannot deadlock.
  insert into session_counts as counted (agent_id, release_version, surface, sessions)
  select agent_id, release_version, surface, count(*) from added group by agent_id, release_version, surface order by 1, 2, 3
  on conflict (agent_id, release_version, surface) do update set sessions = counted.sessions + excluded.sessions;
  return null;
end $function$;

-- From 0006-deliveries.sql.
-- Also written while every endpoint is disabled, so that a time range can be recovered later. The notice goes out when
-- the change that is reported commits; workers only look again, so it carries nothing.
CREATE OR REPLACE FUNCTION public.emit_webhook(for_org integer, event_type text, event_data json)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into webhook_events (org_id, type, data)
  select for_org, event_type, event_data
  where exists (select 1 from webhook_endpoints where org_id = for_org);
  if found then perform pg_notify('parley', '- deliveries'); end if;
end $function$;

-- From 0029-turns-by-id.sql.
-- Ends of turns that reserved nothing, used one model and have nobody waiting behind them. An end changes no files and hands
-- over to nobody: that was committed before.
CREATE OR REPLACE FUNCTION public.end_alike(batch turn_operation[], sessions_once text[], orgs integer[], process text)
 RETURNS TABLE(place bigint, result json)
 LANGUAGE plpgsql
AS $function$
begin
  return query
    with ending as materialized (
      select o.ordinality as place, o.events, o.messages, o.webhooks, json_array_length(o.events) as added, t.id as turn, t.end_user_id,
        s.id as session_id, s.org_id, s.agent_id, s.instance_key, s.last_seq,
        u.model, u.turns, u.input, u.output, u.cached, u.cost_micros, u.credit_micros
      from unnest(batch) with ordinality o
        join turns t on t.id = o.turn join sessions s on s.id = t.session_id,
        json_to_record(case json_typeof(o.used) when 'object' then o.used end) as u (model text, turns integer, input bigint, output bigint, cached bigint, cost_micros bigint, credit_micros bigint)
      where o.kind = 'end' and json_typeof(o.used) = 'object' and o.session = any (sessions_once) and o.org = any (orgs)
        and t.process_id = process
        and t.reserved_tokens = 0 and t.reserved_micros = 0 and t.reserved_credit_micros = 0 and s.queued_turns = 0
    ), new_events as (
      insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
      select e.org_id, e.session_id, e.last_seq + entry.number, e.turn, entry.type, entry.data, now()
      from ending e, rows from (json_to_recordset(e.events) as (type text, data json)) with ordinality as entry (type, data, number)
    ), heads as (
      update sessions s set last_seq = s.last_seq + e.added, message_count = s.message_count + coalesce(e.messages, 0),
        last_message_at = case when e.messages is not null then now() else s.last_message_at end,
        updated_at = now(), pending_input = null, active_turn_id = null
      from ending e where s.id = e.session_id
    ), ended_turns as (
      update turns t set state = 'ended', ended_at = now(), process_id = null, lease_until = null, last_seq = e.last_seq + e.added
      from ending e where t.id = e.turn
    ), spent as (
      update budgets b set tokens_used = b.tokens_used + e.tokens, spent_micros = b.spent_micros + e.cost,
        credits_spent_micros = b.credits_spent_micros + e.credit
      from (
        select org_id, sum(input + output) as tokens, sum(cost_micros) as cost, sum(credit_micros) as credit from ending group by org_id
      ) e where b.org_id = e.org_id
    ), spent_by_instance as (
      insert into instance_spend as i (org_id, agent_id, instance_key, spent_micros)
      select e.org_id, e.agent_id, e.instance_key, sum(e.cost_micros) from ending e group by 1, 2, 3
      on conflict (org_id, agent_id, instance_key) do update set spent_micros = i.spent_micros + excluded.spent_micros
    ), used as (
      insert into usage_daily as d (org_id, day, agent_id, model, end_user_id, turns, input_tokens, output_tokens, cached_tokens, cost_micros)
      select e.org_id, (now() at time zone 'utc')::date, e.agent_id, e.model, coalesce(e.end_user_id, ''),
        sum(e.turns), sum(e.input), sum(e.output), sum(e.cached), sum(e.cost_micros)
      from ending e group by 1, 2, 3, 4, 5
      on conflict (org_id, day, agent_id, model, end_user_id) do update set
        turns = d.turns + excluded.turns,
        input_tokens = d.input_tokens + excluded.input_tokens,
        output_tokens = d.output_tokens + excluded.output_tokens,
        cached_tokens = d.cached_tokens + excluded.cached_tokens,
        cost_micros = d.cost_micros + excluded.cost_micros
    ), told as materialized (
      select emit_webhook(e.org_id, w.value ->> 'type', w.value -> 'data') from ending e, json_array_elements(e.webhooks) w
      where exists (select 1 from webhook_endpoints p where p.org_id = e.org_id)
    )
    select e.place, json_build_object('status', 'done', 'seq', e.last_seq + 1) from ending e
    -- Always true: a select whose rows nobody asks for is not carried out, and this one sends the webhooks.
    where (select count(*) from told) >= 0;
end $function$;

-- From 0042-withdrawn-by-id.sql.
-- Asks the active turn to end. A paused one is taken up by this process, so that it can end properly; it reserves nothing,
-- since all it will do is end. That holds also for one that paused in spite of an interrupt, before 0020.
-- `stop` also closes the session to new messages, and marks those that wait. With a turn, only that one is asked to end: it is
-- marked if it waits, and stays as it is if it is paused.
CREATE OR REPLACE FUNCTION public.interrupt_turn(operation turn_operation, process text, lease_ms integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  s sessions;
  t turns;
  first integer;
begin
  select * into s from sessions where id = operation.session and org_id = operation.org;
  if not found then return json_build_object('status', 'not-found'); end if;
  if operation.kind = 'stop' and s.status = 'active' then
    update sessions set status = 'stopped', updated_at = now() where id = s.id;
    if s.queued_turns > 0 then update turns set interrupted = true where session_id = s.id and state = 'queued'; end if;
  end if;
  if operation.turn is distinct from s.active_turn_id and operation.turn is not null then
    update turns set interrupted = true where id = operation.turn and session_id = s.id and state = 'queued';
    return json_build_object('status', case when found then 'queued' else 'idle' end);
  end if;
  if s.active_turn_id is null then return json_build_object('status', 'idle'); end if;
  select * into t from turns where id = s.active_turn_id;
  if t.interrupted and t.state = 'running' then return json_build_object('status', 'idle'); end if;
  if t.state = 'paused' and operation.turn is not null then return json_build_object('status', 'idle'); end if;
  first := append_events(s, t.id, json_build_array(json_build_object('type', 'interrupt-requested', 'data', json_build_object('reason', operation.reason))));
  update turns set interrupted = true where id = t.id;
  if t.state = 'running' then return json_build_object('status', 'interrupting', 'turn', t.id, 'seq', first); end if;
  update approvals set state = 'withdrawn', resolved_at = now() where request_id = s.pending_input ->> 'request_id';
  update sessions set pending_input = null where id = s.id;
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond' where id = t.id;
  return json_build_object('status', 'resumed', 'turn', t.id, 'seq', first);
end $function$;

-- From 0014-alike-turns.sql.
CREATE OR REPLACE FUNCTION public.is_limited(for_org integer)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    select credits_micros is not null or total_tokens_cap is not null or instance_spend_cap_micros is not null from budgets where org_id = for_org);
end $function$;

-- From 0035-moved-participants.sql.
-- Adds a participant, or what is new about one: where it is reached, and which session it talks from there. That of another gateway is
-- not taken along to where it is reached now, which would know nothing of it and refuse what is sent.
CREATE OR REPLACE FUNCTION public.join_session(for_session text, participant jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update sessions set participants = (
    select coalesce(jsonb_agg(case
        when p ->> 'name' <> participant ->> 'name' then p
        when p ->> 'gateway_url' <> participant ->> 'gateway_url' then p - 'gateway_session_id' || participant
        else p || participant end order by place), '[]')
      || case when bool_or(p ->> 'name' = participant ->> 'name') then '[]' else jsonb_build_array(participant) end
    from jsonb_array_elements(participants::jsonb) with ordinality as entry (p, place))::json
  where id = for_session and not participants::jsonb @> jsonb_build_array(participant);
end $function$;

-- From 0048-deliveries-to-stopped-sessions.sql.
-- An entry that no turn answers, such as a message delivered by a gateway. Like any message it is refused by a stopped session, with a
-- status that the version before, which may still run, takes for a refusal too.
CREATE OR REPLACE FUNCTION public.note_event(operation turn_operation)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  s sessions;
  first integer;
begin
  select * into s from sessions where id = operation.session and org_id = operation.org;
  if not found then return json_build_object('status', 'not-found'); end if;
  if s.status = 'stopped' then return json_build_object('status', 'not-found', 'stopped', true); end if;
  first := append_events(s, operation.turn, operation.events);
  update sessions set message_count = message_count + operation.messages,
    last_message_at = case when operation.messages > 0 then now() else last_message_at end where id = s.id;
  return json_build_object('status', 'done', 'seq', first);
end $function$;

-- From 0001-accounts.sql.
CREATE OR REPLACE FUNCTION public.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception '% rows are append-only', tg_table_name;
end $function$;

-- From 0031-newest-session-of-a-participant.sql.
CREATE OR REPLACE FUNCTION public.remember_participants()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into session_participants (session_id, name, org_id, created_at)
  select new.id, p ->> 'name', new.org_id, new.created_at from json_array_elements(new.participants) p
  on conflict do nothing;
  return null;
end $function$;

-- From 0013-cap-alerts.sql.
-- Reports the alert thresholds that a budget has crossed since the last report, and always the cap itself.
CREATE OR REPLACE FUNCTION public.report_thresholds(b budgets)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  percent integer;
  threshold integer;
begin
  percent := least(1000, greatest(
    case when b.total_tokens_cap > 0 then b.tokens_used * 100 / b.total_tokens_cap when b.total_tokens_cap = 0 then 100 else 0 end,
    case when b.credits_micros > 0 then b.credits_spent_micros * 100 / b.credits_micros when b.credits_micros = 0 then 100 else 0 end));
  if percent <= b.threshold_fired then return; end if;
  for threshold in
    select value from (
      select value::text::integer as value from organizations, json_array_elements(alert_thresholds) value where organizations.id = b.org_id
      union select 100
    ) wanted where value > b.threshold_fired and value <= percent order by 1
  loop
    perform emit_webhook(b.org_id, case when threshold = 100 then 'usage.budget_exhausted' else 'usage.budget_threshold_reached' end,
      json_build_object('threshold', threshold, 'percent_used', percent));
    update budgets set threshold_fired = threshold where org_id = b.org_id;
  end loop;
end $function$;

-- From 0003-turns.sql.
-- Holds what a turn may come to, for the org and for its instance, until it is settled.
CREATE OR REPLACE FUNCTION public.reserve_budget(s sessions, tokens bigint, credit_micros bigint, spend_micros bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update budgets set reserved_tokens = reserved_tokens + tokens, reserved_micros = reserved_micros + credit_micros where org_id = s.org_id;
  insert into instance_spend (org_id, agent_id, instance_key, reserved_micros) values (s.org_id, s.agent_id, s.instance_key, spend_micros)
  on conflict (org_id, agent_id, instance_key) do update set reserved_micros = instance_spend.reserved_micros + excluded.reserved_micros;
end $function$;

-- From 0034-who-asked.sql.
-- What the answer to an approval repeats of its request (`input`: its `echo`) is kept with it, for when that answer is read again.
CREATE OR REPLACE FUNCTION public.resolve_approval(operation turn_operation, process text, lease_ms integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  s sessions;
  a approvals;
  first integer;
  limited boolean;
  agent text;
begin
  select * into s from sessions where id = operation.session and org_id = operation.org;
  if not found then return json_build_object('status', 'not-found'); end if;
  select * into a from approvals where request_id = operation."requestId" and session_id = s.id;
  if a.state = 'resolved' then
    return json_build_object('status', case when a.decision = operation.decision then 'same' else 'different' end, 'turn', a.turn_id, 'seq', a.resolved_seq);
  end if;
  if a.state is distinct from 'pending' or s.pending_input ->> 'request_id' is distinct from operation."requestId" then
    return json_build_object('status', 'mismatch');
  end if;
  agent := coalesce(a.request ->> 'agent', agent_of_turn(s, a.turn_id));
  first := append_events(s, a.turn_id, json_build_array(
    json_build_object('type', 'approval-resolved', 'data', case when operation.input is null
      then json_build_object('requestId', a.request_id, 'callId', a.call_id, 'decision', operation.decision)
      else json_build_object('requestId', a.request_id, 'callId', a.call_id, 'decision', operation.decision, 'echo', operation.input -> 'echo') end),
    json_build_object('type', 'turn-resumed', 'data', json_build_object('agent', agent))));
  update approvals set state = 'resolved', decision = operation.decision, resolved_seq = first, resolved_at = now() where request_id = a.request_id;
  update sessions set pending_input = null where id = s.id;
  limited := is_limited(s.org_id);
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond',
    reserved_tokens = case when limited then operation."reserveTokens" else 0 end,
    reserved_micros = case when limited then operation."reserveMicros" else 0 end,
    reserved_credit_micros = case when limited then operation."reserveCreditMicros" else 0 end where id = a.turn_id;
  if limited then perform reserve_budget(s, operation."reserveTokens", operation."reserveCreditMicros", operation."reserveMicros"); end if;
  return json_build_object('status', 'resumed', 'turn', a.turn_id, 'seq', first, 'callId', a.call_id, 'agent', agent);
end $function$;

-- From 0027-models-of-a-turn.sql.
-- Turns a reservation into what was really used, and counts it. `used` is {} for a turn that never ran: then only the
-- reservation goes.
CREATE OR REPLACE FUNCTION public.settle_turn(s sessions, t turns, used json)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  b budgets;
  u record;
  used_all json := case json_typeof(used) when 'array' then used else json_build_array(used) end;
begin
  select sum(input + output) as tokens, sum(cost_micros) as cost_micros, sum(credit_micros) as credit_micros into u
  from json_to_recordset(used_all) as (input bigint, output bigint, cost_micros bigint, credit_micros bigint);
  update budgets set
    tokens_used = tokens_used + coalesce(u.tokens, 0),
    spent_micros = spent_micros + coalesce(u.cost_micros, 0),
    credits_spent_micros = credits_spent_micros + coalesce(u.credit_micros, 0),
    reserved_tokens = reserved_tokens - t.reserved_tokens,
    reserved_micros = reserved_micros - t.reserved_credit_micros
  where org_id = s.org_id returning * into b;
  insert into instance_spend (org_id, agent_id, instance_key, spent_micros) values (s.org_id, s.agent_id, s.instance_key, coalesce(u.cost_micros, 0))
  on conflict (org_id, agent_id, instance_key) do update set
    spent_micros = instance_spend.spent_micros + excluded.spent_micros,
    reserved_micros = greatest(0, instance_spend.reserved_micros - t.reserved_micros);
  insert into usage_daily as d (org_id, day, agent_id, model, end_user_id, turns, input_tokens, output_tokens, cached_tokens, cost_micros)
  select s.org_id, (now() at time zone 'utc')::date, s.agent_id, model, coalesce(t.end_user_id, ''),
    sum(turns), sum(input), sum(output), sum(cached), sum(cost_micros)
  from json_to_recordset(used_all) as (model text, turns integer, input bigint, output bigint, cached bigint, cost_micros bigint)
  where model is not null group by model
  on conflict (org_id, day, agent_id, model, end_user_id) do update set
    turns = d.turns + excluded.turns,
    input_tokens = d.input_tokens + excluded.input_tokens,
    output_tokens = d.output_tokens + excluded.output_tokens,
    cached_tokens = d.cached_tokens + excluded.cached_tokens,
    cost_micros = d.cost_micros + excluded.cost_micros;
  if b.total_tokens_cap is not null or b.credits_micros is not null then perform report_thresholds(b); end if;
end $function$;

-- From 0025-reported-lines.sql.
-- The turn has left the session free: the next message in line takes its place. Those that a stop found waiting are ended
-- before, and where none is left the answer says how far the log then goes.
CREATE OR REPLACE FUNCTION public.start_next_turn(for_session text, process text, lease_ms integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  s sessions;
  t turns;
  message json;
  nothing json := json_build_object('input', 0, 'output', 0, 'cachedInput', 0);
begin
  for t in select * from turns where session_id = for_session and state = 'queued' order by position loop
    select * into s from sessions where id = for_session;
    if s.status = 'active' and not t.interrupted then
      message := with_staged_files(t.input, s.staged_files);
      update turns set state = 'running', input = message, process_id = process, first_seq = s.last_seq + 1,
        lease_until = now() + lease_ms * interval '1 millisecond' where id = t.id;
      return begin_turn(s, t.id, message, true);
    end if;
    update turns set first_seq = s.last_seq + 1, last_seq = s.last_seq + 3, state = 'ended', ended_at = now(),
      reserved_tokens = 0, reserved_micros = 0, reserved_credit_micros = 0 where id = t.id;
    perform append_events(s, t.id, json_build_array(
      json_build_object('type', 'message-received', 'data', t.input),
      json_build_object('type', 'turn-started', 'data', json_build_object('agent', coalesce(t.input ->> 'agent', s.current_agent))),
      json_build_object('type', 'turn-ended', 'data', json_build_object('stopReason', 'interrupted', 'step', 0, 'usage', nothing, 'stepUsage', nothing))));
    update sessions set message_count = message_count + 1, last_message_at = now(), queued_turns = queued_turns - 1 where id = s.id;
    perform settle_turn(s, t, '{}');
    perform emit_webhook(s.org_id, 'turn.completed', json_build_object('session_id', s.id, 'turn_id', t.id,
      'agent', (select slug from agents where id = s.agent_id),
      'usage', json_build_object('input_tokens', 0, 'output_tokens', 0, 'total_tokens', 0), 'stop_reason', 'interrupted'));
  end loop;
  return (select json_build_object('endedThrough', last_seq) from sessions where id = for_session);
end $function$;

-- From 0003-turns.sql.
-- Uploads belong to the next message that begins its turn.
CREATE OR REPLACE FUNCTION public.with_staged_files(message json, staged json)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select case when json_array_length(staged) = 0 then message else (message::jsonb || jsonb_build_object('files', staged))::json end
$function$;

-- From 0051-files-stored-ahead.sql.
-- What a tool did to its workspace, written with its result. A change without content is a deletion, unless its content was stored ahead.
-- False, and nothing is written, if the organization's files would grow beyond the operation's limit. The changes are read once and not
-- once for every file, which took half a minute for 2,000. The organization's row of `budgets` is locked.
CREATE OR REPLACE FUNCTION public.write_files(s sessions, operation turn_operation)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  changes file_change[] := array(select c from json_populate_recordset(null::file_change, operation.files) c);
  change file_change;
  growth bigint;
begin
  -- Looked up one by one, since a join would compare every change with every file.
  select coalesce(sum(c.size - coalesce((select f.size from workspace_files f
    where f.org_id = s.org_id and f.agent_id = s.agent_id and f.instance_key = s.instance_key and f.path = c.path), 0)), 0)
  into growth from unnest(changes) c;
  if growth > 0 and (select file_bytes + growth > operation."maxFileBytes" from budgets where org_id = s.org_id) then
    delete from workspace_files where org_id = s.org_id and agent_id = s.agent_id
      and instance_key = any (array(select distinct 'ahead:' || c.ahead from unnest(changes) c where c.ahead is not null));
    return false;
  end if;
  foreach change in array changes loop
    if change.content is null then
      delete from workspace_files where org_id = s.org_id and agent_id = s.agent_id and instance_key = s.instance_key and path = change.path;
    else
      insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
      values (s.org_id, s.agent_id, s.instance_key, change.path, decode(change.content, 'base64'), change.size)
      on conflict (org_id, agent_id, instance_key, path) do update set content = excluded.content, size = excluded.size, updated_at = now();
    end if;
    if change.ahead is not null then
      update workspace_files set instance_key = s.instance_key, size = change.size, updated_at = now()
      where org_id = s.org_id and agent_id = s.agent_id and instance_key = 'ahead:' || change.ahead and path = change.path;
      if not found then raise exception 'the content of % is not stored', change.path; end if;
    end if;
  end loop;
  if growth <> 0 then update budgets set file_bytes = greatest(0, file_bytes + growth) where org_id = s.org_id; end if;
  return true;
end $function$;
