-- What is sent to the outside: webhooks, and events for participants at another gateway, in one queue.

create table deliveries (
  id uuid primary key,                -- the receiver's id of it too: `id` of a webhook's payload, and Svc-Event-Id
  position bigint generated always as identity,
  org_id integer not null,
  lane text not null,                 -- `endpoint 7`, `gateway https://…`: what shares a destination shares its slots
  endpoint_id integer references webhook_endpoints (id) on delete cascade,
  event_id uuid,                      -- the webhook event; null for tests and gateway events
  gateway_url text,
  type text not null,
  body text not null,                 -- as it is sent, byte for byte, at every attempt
  is_test boolean not null default false,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  attempt_count integer not null default 0, -- of the schedule: tests and resends are not in it
  next_attempt_at timestamptz,        -- of the schedule; null once it is over
  resend_requested boolean not null default false,
  due_at timestamptz,                 -- when a worker may take it. A taken one is hidden until its lease ends; null: nothing to do
  claimed_by text,
  created_at timestamptz not null,
  delivered_at timestamptz,
  check ((endpoint_id is null) <> (gateway_url is null))
);
create index deliveries_due on deliveries (lane, due_at) where due_at is not null;
create index deliveries_claimed on deliveries (claimed_by) where claimed_by is not null;
create unique index deliveries_of_event on deliveries (endpoint_id, event_id) where event_id is not null;
create index deliveries_of_endpoint on deliveries (endpoint_id, position desc);
create index deliveries_of_endpoint_by_state on deliveries (endpoint_id, state, position desc);
create index deliveries_by_age on deliveries (created_at);

create table delivery_attempts (
  delivery_id uuid not null references deliveries (id) on delete cascade,
  number integer not null,
  manual boolean not null,            -- a test or a resend: never counted against the endpoint
  started_at timestamptz not null,
  duration_ms integer not null,
  status integer,                     -- null: no answer came
  error text,
  response_excerpt text not null default '',
  primary key (delivery_id, number)
);

create index webhook_events_of_org on webhook_events (org_id, created_at);
create index webhook_events_by_age on webhook_events (created_at);

-- Also written while every endpoint is disabled, so that a time range can be recovered later. The notice goes out when
-- the change that is reported commits; workers only look again, so it carries nothing.
create or replace function emit_webhook(for_org integer, event_type text, event_data json) returns void language plpgsql as $$
begin
  insert into webhook_events (org_id, type, data)
  select for_org, event_type, event_data
  where exists (select 1 from webhook_endpoints where org_id = for_org);
  if found then perform pg_notify('parley', '- deliveries'); end if;
end $$;
