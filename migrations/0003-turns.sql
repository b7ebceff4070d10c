-- Every write of a running conversation goes through apply_turn_operations: one statement commits what many turns of
-- a process wrote at the same moment (group commit), each in its session's order. An operation that cannot be done
-- answers with a status; it never raises, since that would undo its neighbours.

-- Appends events to the log of a locked session and moves its head. Returns the first seq.
create function append_events(s sessions, for_turn text, new_events json) returns integer language plpgsql as $$
declare
  added integer;
  messages integer;
begin
  insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
  select s.org_id, s.id, s.last_seq + number, for_turn, value ->> 'type', value -> 'data', now()
  from json_array_elements(new_events) with ordinality as entry (value, number);
  get diagnostics added = row_count;
  select count(*) into messages from json_array_elements(new_events) value
  where value ->> 'type' in ('message-received', 'message-produced');
  update sessions set
    last_seq = last_seq + added,
    message_count = message_count + messages,
    last_message_at = case when messages > 0 then now() else last_message_at end,
    updated_at = now()
  where id = s.id;
  return s.last_seq + 1;
end $$;

-- Why the org may not run another turn, or null. `reserve_micros` is what the turn would cost from prepaid credits.
create function budget_refusal(for_org integer, for_agent integer, for_instance text, credit_micros bigint, spend_micros bigint)
returns text language plpgsql as $$
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
end $$;

create function reserve_budget(s sessions, tokens bigint, credit_micros bigint, spend_micros bigint) returns void language plpgsql as $$
begin
  update budgets set reserved_tokens = reserved_tokens + tokens, reserved_micros = reserved_micros + credit_micros where org_id = s.org_id;
  insert into instance_spend (org_id, agent_id, instance_key, reserved_micros) values (s.org_id, s.agent_id, s.instance_key, spend_micros)
  on conflict (org_id, agent_id, instance_key) do update set reserved_micros = instance_spend.reserved_micros + excluded.reserved_micros;
end $$;

-- Turns a reservation into what was really used, counts it, and reports the thresholds it crossed.
create function settle_turn(s sessions, t turns, used json) returns void language plpgsql as $$
declare
  b budgets;
  tokens bigint := coalesce((used ->> 'input')::bigint, 0) + coalesce((used ->> 'output')::bigint, 0);
  cost bigint := coalesce((used ->> 'cost_micros')::bigint, 0);
  credit_cost bigint := coalesce((used ->> 'credit_micros')::bigint, 0);
  percent integer;
  threshold integer;
begin
  update budgets set
    tokens_used = tokens_used + tokens,
    spent_micros = spent_micros + cost,
    credits_spent_micros = credits_spent_micros + credit_cost,
    reserved_tokens = reserved_tokens - t.reserved_tokens,
    reserved_micros = reserved_micros - t.reserved_credit_micros
  where org_id = s.org_id returning * into b;
  insert into instance_spend (org_id, agent_id, instance_key, spent_micros) values (s.org_id, s.agent_id, s.instance_key, cost)
  on conflict (org_id, agent_id, instance_key) do update set
    spent_micros = instance_spend.spent_micros + excluded.spent_micros,
    reserved_micros = greatest(0, instance_spend.reserved_micros - t.reserved_micros);
  update turns set reserved_tokens = 0, reserved_micros = 0, reserved_credit_micros = 0 where id = t.id;
  if used ->> 'model' is not null then
    insert into usage_daily as u (org_id, day, agent_id, model, end_user_id, turns, input_tokens, output_tokens, cached_tokens, cost_micros)
    values (s.org_id, (now() at time zone 'utc')::date, s.agent_id, used ->> 'model', coalesce(t.end_user_id, ''), (used ->> 'turns')::integer,
            (used ->> 'input')::bigint, (used ->> 'output')::bigint, (used ->> 'cached')::bigint, cost)
    on conflict (org_id, day, agent_id, model, end_user_id) do update set
      turns = u.turns + excluded.turns,
      input_tokens = u.input_tokens + excluded.input_tokens,
      output_tokens = u.output_tokens + excluded.output_tokens,
      cached_tokens = u.cached_tokens + excluded.cached_tokens,
      cost_micros = u.cost_micros + excluded.cost_micros;
  end if;
  if b.total_tokens_cap is null and b.credits_micros is null then return; end if;
  percent := least(1000, greatest(
    case when b.total_tokens_cap > 0 then b.tokens_used * 100 / b.total_tokens_cap when b.total_tokens_cap = 0 then 100 else 0 end,
    case when b.credits_micros > 0 then b.credits_spent_micros * 100 / b.credits_micros when b.credits_micros = 0 then 100 else 0 end));
  if percent <= b.threshold_fired then return; end if;
  for threshold in
    select value::text::integer from organizations, json_array_elements(alert_thresholds) value
    where organizations.id = s.org_id and value::text::integer > b.threshold_fired and value::text::integer <= percent order by 1
  loop
    perform emit_webhook(s.org_id, case when threshold >= 100 then 'usage.budget_exhausted' else 'usage.budget_threshold_reached' end,
      json_build_object('threshold', threshold, 'percent_used', percent));
    update budgets set threshold_fired = threshold where org_id = s.org_id;
  end loop;
end $$;

alter table turns add column reserved_credit_micros bigint not null default 0;

-- Gives the session's runner the turn: its message takes its place in the log now. Returns what the runner needs to begin.
create function start_turn(for_session text, for_turn text, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  t turns;
  message json;
  first integer;
  sender text;
begin
  select * into s from sessions where id = for_session;
  select * into t from turns where id = for_turn;
  message := t.input;
  if json_array_length(s.staged_files) > 0 then
    message := (message::jsonb || jsonb_build_object('files', s.staged_files))::json;
  end if;
  first := append_events(s, t.id, json_build_array(
    json_build_object('type', 'message-received', 'data', message),
    json_build_object('type', 'turn-started', 'data', json_build_object('agent', coalesce(message ->> 'agent', s.current_agent)))));
  update turns set state = 'running', input = message, process_id = process, first_seq = first,
    lease_until = now() + lease_ms * interval '1 millisecond' where id = t.id;
  update sessions set
    active_turn_id = t.id,
    staged_files = '[]',
    queued_turns = greatest(0, queued_turns - 1)
  where id = s.id;
  sender := message ->> 'participantName';
  if sender is not null then perform add_participant(s.id, sender, message ->> 'participantType', null); end if;
  return json_build_object('turn', t.id, 'session', s.id, 'org', s.org_id, 'seq', first, 'input', message,
    'agent', coalesce(message ->> 'agent', s.current_agent));
end $$;

create function add_participant(for_session text, participant text, kind text, gateway_url text) returns void language plpgsql as $$
begin
  update sessions set participants = (participants::jsonb || jsonb_build_array(
    jsonb_strip_nulls(jsonb_build_object('name', participant, 'type', coalesce(kind, 'human'), 'gateway_url', gateway_url))))::json
  where id = for_session
    and not exists (select 1 from json_array_elements(participants) p where p ->> 'name' = participant);
end $$;

create function admit_turn(operation json, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  key_row idempotency_keys;
  refusal text;
begin
  select * into s from sessions where id = operation ->> 'session' and org_id = (operation ->> 'org')::integer;
  if not found then return json_build_object('status', 'not-found'); end if;
  if operation ->> 'idempotencyKey' is not null then
    delete from idempotency_keys where org_id = s.org_id and key = operation ->> 'idempotencyKey' and created_at < now() - interval '24 hours';
    insert into idempotency_keys (org_id, key, fingerprint, turn_id)
    values (s.org_id, operation ->> 'idempotencyKey', operation ->> 'idempotencyFingerprint', operation ->> 'turn') on conflict do nothing;
    if not found then
      select * into key_row from idempotency_keys where org_id = s.org_id and key = operation ->> 'idempotencyKey';
      if key_row.fingerprint = operation ->> 'idempotencyFingerprint' and key_row.turn_id is not null then
        return json_build_object('status', 'replayed', 'turn', key_row.turn_id);
      end if;
      return json_build_object('status', 'key-reused');
    end if;
  end if;
  refusal := budget_refusal(s.org_id, s.agent_id, s.instance_key, (operation ->> 'reserveCreditMicros')::bigint, (operation ->> 'reserveMicros')::bigint);
  if refusal is null and s.status = 'stopped' then refusal := 'stopped'; end if;
  if refusal is null and s.pending_input is not null and not (operation ->> 'waitsForApproval')::boolean then refusal := 'input-pending'; end if;
  if refusal is null and s.queued_turns >= 16 then refusal := 'queue-full'; end if;
  if refusal is not null then
    delete from idempotency_keys where org_id = s.org_id and key = operation ->> 'idempotencyKey' and turn_id = operation ->> 'turn';
    return json_build_object('status', refusal, 'request_id', s.pending_input ->> 'request_id');
  end if;
  perform reserve_budget(s, (operation ->> 'reserveTokens')::bigint, (operation ->> 'reserveCreditMicros')::bigint, (operation ->> 'reserveMicros')::bigint);
  insert into turns (id, org_id, agent_id, session_id, state, input, end_user_id, fingerprint, reserved_tokens, reserved_micros, reserved_credit_micros)
  values (operation ->> 'turn', s.org_id, s.agent_id, s.id, 'queued', operation -> 'input', operation ->> 'endUserId', operation ->> 'fingerprint',
          (operation ->> 'reserveTokens')::bigint, (operation ->> 'reserveMicros')::bigint, (operation ->> 'reserveCreditMicros')::bigint);
  if s.active_turn_id is not null then
    update sessions set queued_turns = queued_turns + 1, updated_at = now() where id = s.id;
    return json_build_object('status', 'queued', 'turn', operation ->> 'turn', 'after', s.last_seq);
  end if;
  return json_build_object('status', 'started', 'turn', operation ->> 'turn', 'started', start_turn(s.id, operation ->> 'turn', process, lease_ms));
end $$;

-- The turn has left the session free: the next message in line takes its place; a stopped session ends what waited.
create function start_next_turn(for_session text, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  t turns;
begin
  update sessions set active_turn_id = null where id = for_session returning * into s;
  if s.queued_turns = 0 then return null; end if;
  if s.status = 'active' then
    select * into t from turns where session_id = for_session and state = 'queued' order by position limit 1;
    if not found then return null; end if;
    return start_turn(for_session, t.id, process, lease_ms);
  end if;
  for t in select * from turns where session_id = for_session and state = 'queued' order by position loop
    select * into s from sessions where id = for_session;
    update turns set first_seq = s.last_seq + 1, last_seq = s.last_seq + 3, state = 'ended', ended_at = now() where id = t.id;
    perform append_events(s, t.id, json_build_array(
      json_build_object('type', 'message-received', 'data', t.input),
      json_build_object('type', 'turn-started', 'data', json_build_object('agent', s.current_agent)),
      json_build_object('type', 'turn-ended', 'data', json_build_object('stopReason', 'interrupted', 'step', 0,
        'usage', json_build_object('input', 0, 'output', 0, 'cachedInput', 0), 'stepUsage', json_build_object('input', 0, 'output', 0, 'cachedInput', 0)))));
    perform settle_turn(s, t, '{}');
  end loop;
  update sessions set queued_turns = 0 where id = for_session;
  return null;
end $$;

-- A commit point of a running turn: `append` goes on, `pause` waits for a person, `end` settles and lets the next begin.
create function advance_turn(operation json, process text, lease_ms integer) returns json language plpgsql as $$
declare
  kind text := operation ->> 'kind';
  s sessions;
  t turns;
  first integer;
  change json;
  hook json;
begin
  select * into t from turns where id = operation ->> 'turn' and state = 'running' and process_id = process;
  if not found then return json_build_object('status', 'lost'); end if;
  select * into s from sessions where id = t.session_id;
  first := append_events(s, t.id, operation -> 'events');
  for change in select value from json_array_elements(coalesce(operation -> 'files', '[]')) value loop
    if change ->> 'content' is null then
      delete from workspace_files where org_id = s.org_id and agent_id = s.agent_id and instance_key = s.instance_key and path = change ->> 'path';
    else
      insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
      values (s.org_id, s.agent_id, s.instance_key, change ->> 'path', decode(change ->> 'content', 'base64'), (change ->> 'size')::integer)
      on conflict (org_id, agent_id, instance_key, path) do update set content = excluded.content, size = excluded.size, updated_at = now();
    end if;
  end loop;
  if operation ->> 'currentAgent' is not null then
    update sessions set current_agent = operation ->> 'currentAgent' where id = s.id;
  end if;
  for hook in select value from json_array_elements(coalesce(operation -> 'webhooks', '[]')) value loop
    perform emit_webhook(s.org_id, hook ->> 'type', hook -> 'data');
  end loop;
  if kind = 'append' then return json_build_object('status', 'done', 'seq', first, 'interrupted', t.interrupted); end if;
  perform settle_turn(s, t, operation -> 'used');
  if kind = 'pause' then
    insert into approvals (request_id, org_id, session_id, turn_id, call_id, request)
    values (operation -> 'request' ->> 'requestId', s.org_id, s.id, t.id, operation -> 'request' ->> 'callId', operation -> 'request');
    update turns set state = 'paused', process_id = null, lease_until = null where id = t.id;
    update sessions set pending_input = operation -> 'pendingInput' where id = s.id;
    return json_build_object('status', 'done', 'seq', first);
  end if;
  update turns set state = 'ended', ended_at = now(), process_id = null, lease_until = null,
    last_seq = first + json_array_length(operation -> 'events') - 1 where id = t.id;
  return json_build_object('status', 'done', 'seq', first, 'next', start_next_turn(s.id, process, lease_ms));
end $$;

-- Answers a pending approval, once. The process that answers goes on with the turn.
create function resolve_approval(operation json, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  a approvals;
  first integer;
begin
  select * into s from sessions where id = operation ->> 'session' and org_id = (operation ->> 'org')::integer;
  if not found then return json_build_object('status', 'not-found'); end if;
  select * into a from approvals where request_id = operation ->> 'requestId' and session_id = s.id;
  if a.state = 'resolved' then
    return json_build_object('status', case when a.decision = operation ->> 'decision' then 'same' else 'different' end,
      'turn', a.turn_id, 'seq', a.resolved_seq);
  end if;
  if a.state is distinct from 'pending' or s.pending_input ->> 'request_id' is distinct from operation ->> 'requestId' then
    return json_build_object('status', 'mismatch');
  end if;
  first := append_events(s, a.turn_id, json_build_array(
    json_build_object('type', 'approval-resolved', 'data', json_build_object('requestId', a.request_id, 'callId', a.call_id, 'decision', operation ->> 'decision')),
    json_build_object('type', 'turn-resumed', 'data', json_build_object('agent', s.current_agent))));
  update approvals set state = 'resolved', decision = operation ->> 'decision', resolved_seq = first, resolved_at = now() where request_id = a.request_id;
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond',
    reserved_tokens = (operation ->> 'reserveTokens')::bigint, reserved_micros = (operation ->> 'reserveMicros')::bigint,
    reserved_credit_micros = (operation ->> 'reserveCreditMicros')::bigint where id = a.turn_id;
  perform reserve_budget(s, (operation ->> 'reserveTokens')::bigint, (operation ->> 'reserveCreditMicros')::bigint, (operation ->> 'reserveMicros')::bigint);
  update sessions set pending_input = null where id = s.id;
  return json_build_object('status', 'resumed', 'turn', a.turn_id, 'seq', first, 'callId', a.call_id, 'agent', s.current_agent);
end $$;

-- Asks the active turn to end. A paused one is taken up by this process, so that it can end properly.
-- `stop` also closes the session to new messages.
create function interrupt_turn(operation json, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  t turns;
  first integer;
begin
  select * into s from sessions where id = operation ->> 'session' and org_id = (operation ->> 'org')::integer;
  if not found then return json_build_object('status', 'not-found'); end if;
  if operation ->> 'kind' = 'stop' and s.status = 'active' then
    update sessions set status = 'stopped', updated_at = now() where id = s.id;
  end if;
  if s.active_turn_id is null then return json_build_object('status', 'idle'); end if;
  select * into t from turns where id = s.active_turn_id;
  if t.interrupted then return json_build_object('status', 'idle'); end if;
  first := append_events(s, t.id, json_build_array(json_build_object('type', 'interrupt-requested', 'data', json_build_object('reason', operation ->> 'reason'))));
  update turns set interrupted = true where id = t.id;
  if t.state = 'running' then
    return json_build_object('status', 'interrupting', 'turn', t.id, 'seq', first);
  end if;
  update approvals set state = 'withdrawn', resolved_at = now() where turn_id = t.id and state = 'pending';
  update sessions set pending_input = null where id = s.id;
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond' where id = t.id;
  return json_build_object('status', 'resumed', 'turn', t.id, 'seq', first);
end $$;

-- An entry that no turn answers, such as a message delivered by a gateway.
create function note_event(operation json) returns json language plpgsql as $$
declare
  s sessions;
begin
  select * into s from sessions where id = operation ->> 'session' and org_id = (operation ->> 'org')::integer;
  if not found then return json_build_object('status', 'not-found'); end if;
  return json_build_object('status', 'done', 'seq', append_events(s, operation ->> 'turn', operation -> 'events'));
end $$;

create function apply_turn_operations(operations json, process text, lease_ms integer, notify boolean) returns json language plpgsql as $$
declare
  operation json;
  results json[] := '{}';
  touched text;
begin
  -- Always in this order, so that two processes cannot wait for each other.
  perform 1 from sessions where id in (select value ->> 'session' from json_array_elements(operations) value) order by id for update;
  perform 1 from budgets where org_id in (
    select (value ->> 'org')::integer from json_array_elements(operations) value where value ->> 'kind' in ('admit', 'pause', 'end', 'resolve')
  ) order by org_id for update;
  for operation in select value from json_array_elements(operations) value loop
    results := results || case operation ->> 'kind'
      when 'admit' then admit_turn(operation, process, lease_ms)
      when 'resolve' then resolve_approval(operation, process, lease_ms)
      when 'interrupt' then interrupt_turn(operation, process, lease_ms)
      when 'stop' then interrupt_turn(operation, process, lease_ms)
      when 'note' then note_event(operation)
      else advance_turn(operation, process, lease_ms)
    end;
  end loop;
  if notify then
    for touched in
      select string_agg(id || ':' || last_seq, ' ') from (
        select id, last_seq, row_number() over () / 40 as page from sessions
        where id in (select value ->> 'session' from json_array_elements(operations) value)
      ) s group by page
    loop
      perform pg_notify('parley', process || ' sessions ' || touched);
    end loop;
  end if;
  return json_build_object('at', now(), 'results', array_to_json(results));
end $$;
