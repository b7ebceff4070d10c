-- A turn that is named by its id is found by it. Where a query also said that the turn runs, PostgreSQL took the index of
-- running turns, which looks small: it then read all that run and all that ended since the last vacuum, for each turn of a
-- batch. Whoever holds a turn says as much: `process_id` is set while a turn runs, and only then.

-- A commit point of a running turn: `append` goes on, `pause` waits for a person, `end` settles and lets the next begin.
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

-- Ends of turns that reserved nothing, used one model and have nobody waiting behind them. An end changes no files and hands
-- over to nobody: that was committed before.
create or replace function end_alike(batch turn_operation[], sessions_once text[], orgs integer[], process text)
returns table (place bigint, result json) language plpgsql as $$
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
end $$;
