-- What a turn used is counted for the model that each part of it went to: `used` is one of these, or an array of them where the
-- turn was handed from one sub-agent to another.

-- Turns a reservation into what was really used, and counts it. `used` is {} for a turn that never ran: then only the
-- reservation goes.
create or replace function settle_turn(s sessions, t turns, used json) returns void language plpgsql as $$
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
        and t.state = 'running' and t.process_id = process
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
