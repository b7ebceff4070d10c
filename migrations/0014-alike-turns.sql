-- What a busy moment holds is mostly alike: a message to a session that is free, and the end of a turn behind which nobody
-- waits. In an org without limits these are carried out together, in one statement for all of a kind; the rest goes one by
-- one. Measured with 32 clients, the database's share of a turn falls by more than half.
--
-- None of these functions is `language sql` where it reads or writes a table: PostgreSQL plans such a body anew at every call.
--
-- What 0003-turns.sql says of locks, seq, leases and reservations holds here too. Alike means that nothing else has to be
-- looked at or written, so that the outcome of each is what admit_turn or advance_turn would have answered: a session that
-- occurs once in the batch (its operations have no order to keep), in an org without limits (nothing is reserved or refused).

create or replace function add_events(s sessions, for_turn text, new_events json) returns void language plpgsql as $$
begin
  insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
  select s.org_id, s.id, s.last_seq + number, for_turn, type, data, now()
  from rows from (json_to_recordset(new_events) as (type text, data json)) with ordinality as entry (type, data, number);
end $$;

create or replace function is_limited(for_org integer) returns boolean language plpgsql stable as $$
begin
  return (
    select credits_micros is not null or total_tokens_cap is not null or instance_spend_cap_micros is not null from budgets where org_id = for_org);
end $$;

-- Messages to sessions that are free: their turns begin. Not those with an idempotency key, with a participant who may be
-- new to the session, or with staged files. All parts of the statement see the tables as they were before it, and the
-- sessions are locked: `message` is the same for each.
create function admit_alike(batch turn_operation[], sessions_once text[], orgs integer[], process text, lease_ms integer)
returns table (place bigint, result json) language plpgsql as $$
begin
  return query
    with message as materialized (
      select o.ordinality as place, o.turn, o.input, o."endUserId" as end_user_id, o.fingerprint,
        s.id as session_id, s.org_id, s.agent_id, s.last_seq, coalesce(o.input ->> 'agent', s.current_agent) as agent
      from unnest(batch) with ordinality o join sessions s on s.id = o.session and s.org_id = o.org
      where o.kind = 'admit' and o."idempotencyKey" is null and o.input ->> 'participantName' is null
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
end $$;

-- Ends of turns that reserved nothing and behind which nobody waits. An end changes no files and hands over to nobody: that
-- was committed before.
create function end_alike(batch turn_operation[], sessions_once text[], orgs integer[], process text)
returns table (place bigint, result json) language plpgsql as $$
begin
  return query
    with ending as materialized (
      select o.ordinality as place, o.events, o.messages, o.webhooks, json_array_length(o.events) as added, t.id as turn, t.end_user_id,
        s.id as session_id, s.org_id, s.agent_id, s.instance_key, s.last_seq,
        u.model, u.turns, u.input, u.output, u.cached, u.cost_micros, u.credit_micros
      from unnest(batch) with ordinality o
        join turns t on t.id = o.turn join sessions s on s.id = t.session_id,
        json_to_record(o.used) as u (model text, turns integer, input bigint, output bigint, cached bigint, cost_micros bigint, credit_micros bigint)
      where o.kind = 'end' and o.session = any (sessions_once) and o.org = any (orgs)
        and t.state = 'running' and t.process_id = process
        and t.reserved_tokens = 0 and t.reserved_micros = 0 and t.reserved_credit_micros = 0 and s.queued_turns = 0
    ), new_events as (
      insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
      select e.org_id, e.session_id, e.last_seq + entry.number, e.turn, entry.type, entry.data, now()
      from ending e, rows from (json_to_recordset(e.events) as (type text, data json)) with ordinality as entry (type, data, number)
    ), heads as (
      update sessions s set last_seq = s.last_seq + e.added, message_count = s.message_count + e.messages,
        last_message_at = case when e.messages > 0 then now() else s.last_message_at end,
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
end $$;

-- A commit point of a running turn: `append` goes on, `pause` waits for a person, `end` settles and lets the next begin.
-- Webhook events are written whether an endpoint is enabled or not: a disabled one can be given later what it missed.
create or replace function advance_turn(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  t turns;
  added integer := json_array_length(operation.events);
  is_end boolean := operation.kind = 'end';
begin
  select * into t from turns where id = operation.turn and state = 'running' and process_id = process;
  if not found then return json_build_object('status', 'lost'); end if;
  select * into s from sessions where id = t.session_id;
  perform add_events(s, t.id, operation.events);
  update sessions set
    last_seq = last_seq + added,
    message_count = message_count + operation.messages,
    last_message_at = case when operation.messages > 0 then now() else last_message_at end,
    updated_at = now(),
    current_agent = coalesce(operation."currentAgent", current_agent),
    pending_input = operation."pendingInput",
    active_turn_id = case when is_end then null else active_turn_id end
  where id = s.id;
  if operation.files is not null then perform write_files(s, operation.files); end if;
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
    if operation.kind in ('admit', 'pause', 'end', 'resolve') and operation.org <> all (orgs) then orgs := orgs || operation.org; end if;
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
