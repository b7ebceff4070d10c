-- The bytes of an organization's files are counted, so that an installation can limit them without adding up every file for each upload.
-- Whoever writes files locks the organization's row of `budgets` first: so the count is exact, and no two writers of the same
-- workspace wait for each other.
lock table budgets in access exclusive mode;
lock table workspace_files in share mode;
alter table budgets add column if not exists file_bytes bigint not null default 0;
update budgets set file_bytes = coalesce((select sum(size) from workspace_files f where f.org_id = budgets.org_id), 0);

do $$ begin
  create type file_change as (path text, content text, size integer);
exception when duplicate_object then null;
end $$;
do $$ begin
  alter type turn_operation add attribute "maxFileBytes" bigint;
exception when duplicate_column then null;
end $$;

drop function if exists write_files(turn_operation[], json[]);

-- What a tool did to its workspace, written with its result. A change without content is a deletion. False, and nothing is written,
-- if the organization's files would grow beyond the operation's limit. The changes are read once and not once for every file, which
-- took half a minute for 2,000. The organization's row of `budgets` is locked.
create or replace function write_files(s sessions, operation turn_operation) returns boolean language plpgsql as $$
declare
  changes file_change[] := array(select c from json_populate_recordset(null::file_change, operation.files) c);
  change file_change;
  growth bigint;
begin
  -- Looked up one by one, since a join would compare every change with every file.
  select coalesce(sum(c.size - coalesce((select f.size from workspace_files f
    where f.org_id = s.org_id and f.agent_id = s.agent_id and f.instance_key = s.instance_key and f.path = c.path), 0)), 0)
  into growth from unnest(changes) c;
  if growth > 0 and (select file_bytes + growth > operation."maxFileBytes" from budgets where org_id = s.org_id) then return false; end if;
  foreach change in array changes loop
    if change.content is null then
      delete from workspace_files where org_id = s.org_id and agent_id = s.agent_id and instance_key = s.instance_key and path = change.path;
    else
      insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
      values (s.org_id, s.agent_id, s.instance_key, change.path, decode(change.content, 'base64'), change.size)
      on conflict (org_id, agent_id, instance_key, path) do update set content = excluded.content, size = excluded.size, updated_at = now();
    end if;
  end loop;
  if growth <> 0 then update budgets set file_bytes = greatest(0, file_bytes + growth) where org_id = s.org_id; end if;
  return true;
end $$;

-- A commit point of a running turn: `append` goes on, `pause` waits for a person, `end` settles and lets the next begin. If the files of
-- an `append` do not fit, nothing is written and it answers 'files-full'.
-- Webhook events are written whether an endpoint is enabled or not: a disabled one can be given later what it missed.
-- A `pause` that comes after an interrupt writes nothing and answers 'interrupted': the turn is to end instead. So it does where
-- the agent was deleted, and the session is stopped: nobody can answer, and what waits behind would wait as well.
create or replace function advance_turn(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
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
    -- Held until this commits: whoever deletes the agent next finds the question.
    perform 1 from agents where id = s.agent_id and deleted_at is null for share;
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
end $$;

-- Carries out a batch: each session's operations in their order, and the alike ones of others together, ahead of the rest.
-- Plans are kept for the life of a connection, and must stay right when tables that were empty have grown: hence only plans
-- that go by an index.
create or replace function apply_turn_operations(operations json, process text, lease_ms integer, notify boolean) returns json language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
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
end $$;
