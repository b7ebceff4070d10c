-- Every write of a running conversation goes through apply_turn_operations: one statement commits what many turns of
-- a process wrote at the same moment (group commit), each in its session's order. An operation that cannot be done
-- answers with a status; it never raises, since that would undo its neighbours.
--
-- What the functions below rely on:
-- * apply_turn_operations has locked every session of the batch, and then every budget, before the first operation is
--   carried out. They read a row, decide and write it, and nobody else can have changed it in between.
-- * `s` is the session as it was before the operation. Its events are numbered from s.last_seq + 1, and whoever writes them
--   moves last_seq by as many before returning: that is why `seq` has no gaps. One that appends a second time reads `s` anew.
-- * A message gets its seq when its turn begins, not when it is admitted: a waiting turn has no place in the log yet.
-- * Only the process that a running turn names may write for it; any other is answered 'lost' and has to let go.
-- * What a turn has reserved stands in its row. Settling takes exactly that off the budget, and the row is set to 0 with it.
--
-- These functions are the hot path. Each statement in them costs about 20 microseconds of a turn, so that they read a
-- row once, write it once, and look at budgets only where one is set. Later files replace some of them:
-- docs/schema.sql has each as it is now.

-- An operation with its fields parsed once. The names are those of the program's JSON.
create type turn_operation as (
  kind text, org integer, session text, turn text, events json, messages integer,
  -- admit
  input json, "endUserId" text, fingerprint text, "idempotencyKey" text, "idempotencyFingerprint" text, "waitsForApproval" boolean,
  "reserveTokens" bigint, "reserveMicros" bigint, "reserveCreditMicros" bigint,
  -- append, pause, end
  files json, "currentAgent" text, webhooks json, used json, request json, "pendingInput" json,
  -- resolve, interrupt, stop
  "requestId" text, decision text, reason text
);

-- Writes events behind the log of a locked session. Its caller moves the head.
create function add_events(s sessions, for_turn text, new_events json) returns void language sql as $$
  insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
  select s.org_id, s.id, s.last_seq + number, for_turn, type, data, now()
  from rows from (json_to_recordset(new_events) as (type text, data json)) with ordinality as entry (type, data, number)
$$;

-- Appends to the log of a locked session and moves its head. Returns the first seq.
create function append_events(s sessions, for_turn text, new_events json) returns integer language plpgsql as $$
begin
  perform add_events(s, for_turn, new_events);
  update sessions set last_seq = last_seq + json_array_length(new_events), updated_at = now() where id = s.id;
  return s.last_seq + 1;
end $$;

-- Why the org may not run another turn, or null. A turn may begin while anything at all is left, and what
-- running turns hold counts as used: all of them together pass a cap by less than one reservation. Of `credit_micros` only
-- counts whether it is 0: then the turn runs on the customer's own key, and credits do not stop it. `spend_micros` is not
-- looked at.
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

-- Whether turns of the org have to reserve anything.
create function is_limited(for_org integer) returns boolean language sql stable as $$
  select credits_micros is not null or total_tokens_cap is not null or instance_spend_cap_micros is not null from budgets where org_id = for_org
$$;

-- Holds what a turn may come to, for the org and for its instance, until it is settled.
create function reserve_budget(s sessions, tokens bigint, credit_micros bigint, spend_micros bigint) returns void language plpgsql as $$
begin
  update budgets set reserved_tokens = reserved_tokens + tokens, reserved_micros = reserved_micros + credit_micros where org_id = s.org_id;
  insert into instance_spend (org_id, agent_id, instance_key, reserved_micros) values (s.org_id, s.agent_id, s.instance_key, spend_micros)
  on conflict (org_id, agent_id, instance_key) do update set reserved_micros = instance_spend.reserved_micros + excluded.reserved_micros;
end $$;

-- Reports the alert thresholds that a budget has crossed since the last report.
create function report_thresholds(b budgets) returns void language plpgsql as $$
declare
  percent integer;
  threshold integer;
begin
  percent := least(1000, greatest(
    case when b.total_tokens_cap > 0 then b.tokens_used * 100 / b.total_tokens_cap when b.total_tokens_cap = 0 then 100 else 0 end,
    case when b.credits_micros > 0 then b.credits_spent_micros * 100 / b.credits_micros when b.credits_micros = 0 then 100 else 0 end));
  if percent <= b.threshold_fired then return; end if;
  for threshold in
    select value::text::integer from organizations, json_array_elements(alert_thresholds) value
    where organizations.id = b.org_id and value::text::integer > b.threshold_fired and value::text::integer <= percent order by 1
  loop
    perform emit_webhook(b.org_id, case when threshold >= 100 then 'usage.budget_exhausted' else 'usage.budget_threshold_reached' end,
      json_build_object('threshold', threshold, 'percent_used', percent));
    update budgets set threshold_fired = threshold where org_id = b.org_id;
  end loop;
end $$;

-- Turns a reservation into what was really used, and counts it. `used` is {} for a turn that never ran: then only the
-- reservation goes.
create function settle_turn(s sessions, t turns, used json) returns void language plpgsql as $$
declare
  b budgets;
  u record;
begin
  select * into u from json_to_record(used) as (model text, turns integer, input bigint, output bigint, cached bigint, cost_micros bigint, credit_micros bigint);
  update budgets set
    tokens_used = tokens_used + coalesce(u.input + u.output, 0),
    spent_micros = spent_micros + coalesce(u.cost_micros, 0),
    credits_spent_micros = credits_spent_micros + coalesce(u.credit_micros, 0),
    reserved_tokens = reserved_tokens - t.reserved_tokens,
    reserved_micros = reserved_micros - t.reserved_credit_micros
  where org_id = s.org_id returning * into b;
  insert into instance_spend (org_id, agent_id, instance_key, spent_micros) values (s.org_id, s.agent_id, s.instance_key, coalesce(u.cost_micros, 0))
  on conflict (org_id, agent_id, instance_key) do update set
    spent_micros = instance_spend.spent_micros + excluded.spent_micros,
    reserved_micros = greatest(0, instance_spend.reserved_micros - t.reserved_micros);
  if u.model is not null then
    insert into usage_daily as d (org_id, day, agent_id, model, end_user_id, turns, input_tokens, output_tokens, cached_tokens, cost_micros)
    values (s.org_id, (now() at time zone 'utc')::date, s.agent_id, u.model, coalesce(t.end_user_id, ''), u.turns, u.input, u.output, u.cached, u.cost_micros)
    on conflict (org_id, day, agent_id, model, end_user_id) do update set
      turns = d.turns + excluded.turns,
      input_tokens = d.input_tokens + excluded.input_tokens,
      output_tokens = d.output_tokens + excluded.output_tokens,
      cached_tokens = d.cached_tokens + excluded.cached_tokens,
      cost_micros = d.cost_micros + excluded.cost_micros;
  end if;
  if b.total_tokens_cap is not null or b.credits_micros is not null then perform report_thresholds(b); end if;
end $$;

alter table turns add column reserved_credit_micros bigint not null default 0;

-- Whoever speaks in a session takes part in it, once.
create function add_participant(for_session text, participant text, kind text, gateway_url text) returns void language plpgsql as $$
begin
  update sessions set participants = (participants::jsonb || jsonb_build_array(
    jsonb_strip_nulls(jsonb_build_object('name', participant, 'type', coalesce(kind, 'human'), 'gateway_url', gateway_url))))::json
  where id = for_session
    and not exists (select 1 from json_array_elements(participants) p where p ->> 'name' = participant);
end $$;

-- The message of a turn takes its place in the log, which is what gives the turn to its runner. Writes the session once.
-- Returns what the runner needs to begin; `message` is the turn's input with the files staged for it.
create function begin_turn(s sessions, for_turn text, message json, was_queued boolean) returns json language plpgsql as $$
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
end $$;

-- Uploads belong to the next message that begins its turn.
create function with_staged_files(message json, staged json) returns json language sql immutable as $$
  select case when json_array_length(staged) = 0 then message else (message::jsonb || jsonb_build_object('files', staged))::json end
$$;

-- Takes a message: gives it its turn where the session is free, else its place in line. In this order: the session, the
-- idempotency key, the budget, the session's state; so that a repetition is answered as the first was, whatever has changed
-- since. A refusal gives the key back: nothing was done under it.
create function admit_turn(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  key_row idempotency_keys;
  refusal text;
  limited boolean;
  message json;
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
  limited := is_limited(s.org_id);
  refusal := budget_refusal(s.org_id, s.agent_id, s.instance_key, operation."reserveCreditMicros", operation."reserveMicros");
  if refusal is null and s.status = 'stopped' then refusal := 'stopped'; end if;
  if refusal is null and s.pending_input is not null and not operation."waitsForApproval" then refusal := 'input-pending'; end if;
  if refusal is null and s.queued_turns >= 16 then refusal := 'queue-full'; end if;
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
end $$;

-- The turn has left the session free: the next message in line takes its place; a stopped session ends what waited, and
-- its answer says how far the log then goes.
create function start_next_turn(for_session text, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  t turns;
  message json;
  nothing json := json_build_object('input', 0, 'output', 0, 'cachedInput', 0);
begin
  select * into s from sessions where id = for_session;
  if s.status = 'active' then
    select * into t from turns where session_id = for_session and state = 'queued' order by position limit 1;
    if not found then return null; end if;
    message := with_staged_files(t.input, s.staged_files);
    update turns set state = 'running', input = message, process_id = process, first_seq = s.last_seq + 1,
      lease_until = now() + lease_ms * interval '1 millisecond' where id = t.id;
    return begin_turn(s, t.id, message, true);
  end if;
  for t in select * from turns where session_id = for_session and state = 'queued' order by position loop
    select * into s from sessions where id = for_session;
    update turns set first_seq = s.last_seq + 1, last_seq = s.last_seq + 3, state = 'ended', ended_at = now(),
      reserved_tokens = 0, reserved_micros = 0, reserved_credit_micros = 0 where id = t.id;
    perform append_events(s, t.id, json_build_array(
      json_build_object('type', 'message-received', 'data', t.input),
      json_build_object('type', 'turn-started', 'data', json_build_object('agent', s.current_agent)),
      json_build_object('type', 'turn-ended', 'data', json_build_object('stopReason', 'interrupted', 'step', 0, 'usage', nothing, 'stepUsage', nothing))));
    perform settle_turn(s, t, '{}');
  end loop;
  update sessions set message_count = message_count + queued_turns, last_message_at = now(), queued_turns = 0
  where id = for_session returning * into s;
  return json_build_object('endedThrough', s.last_seq);
end $$;

-- What a tool did to the workspace, written with its result. A change without content is a deletion.
create function write_files(s sessions, changes json) returns void language plpgsql as $$
begin
  delete from workspace_files where org_id = s.org_id and agent_id = s.agent_id and instance_key = s.instance_key
    and path in (select value ->> 'path' from json_array_elements(changes) value where value ->> 'content' is null);
  insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
  select s.org_id, s.agent_id, s.instance_key, value ->> 'path', decode(value ->> 'content', 'base64'), (value ->> 'size')::integer
  from json_array_elements(changes) value where value ->> 'content' is not null
  on conflict (org_id, agent_id, instance_key, path) do update set content = excluded.content, size = excluded.size, updated_at = now();
end $$;

-- A commit point of a running turn: `append` goes on, `pause` waits for a person, `end` settles and lets the next begin.
create function advance_turn(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
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
  if operation.webhooks is not null and exists (select 1 from webhook_endpoints where org_id = s.org_id and enabled) then
    perform emit_webhook(s.org_id, value ->> 'type', value -> 'data') from json_array_elements(operation.webhooks) value;
  end if;
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

-- Answers a pending approval, once. The process that answers goes on with the turn. The budget is reserved again, since the
-- pause settled it, and not asked: a turn that has begun is not refused in its middle.
create function resolve_approval(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  a approvals;
  first integer;
  limited boolean;
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
  first := append_events(s, a.turn_id, json_build_array(
    json_build_object('type', 'approval-resolved', 'data', json_build_object('requestId', a.request_id, 'callId', a.call_id, 'decision', operation.decision)),
    json_build_object('type', 'turn-resumed', 'data', json_build_object('agent', s.current_agent))));
  update approvals set state = 'resolved', decision = operation.decision, resolved_seq = first, resolved_at = now() where request_id = a.request_id;
  update sessions set pending_input = null where id = s.id;
  limited := is_limited(s.org_id);
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond',
    reserved_tokens = case when limited then operation."reserveTokens" else 0 end,
    reserved_micros = case when limited then operation."reserveMicros" else 0 end,
    reserved_credit_micros = case when limited then operation."reserveCreditMicros" else 0 end where id = a.turn_id;
  if limited then perform reserve_budget(s, operation."reserveTokens", operation."reserveCreditMicros", operation."reserveMicros"); end if;
  return json_build_object('status', 'resumed', 'turn', a.turn_id, 'seq', first, 'callId', a.call_id, 'agent', s.current_agent);
end $$;

-- Asks the active turn to end. A paused one is taken up by this process, so that it can end properly; it reserves nothing,
-- since all it will do is end.
-- `stop` also closes the session to new messages.
create function interrupt_turn(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  t turns;
  first integer;
begin
  select * into s from sessions where id = operation.session and org_id = operation.org;
  if not found then return json_build_object('status', 'not-found'); end if;
  if operation.kind = 'stop' and s.status = 'active' then
    update sessions set status = 'stopped', updated_at = now() where id = s.id;
  end if;
  if s.active_turn_id is null then return json_build_object('status', 'idle'); end if;
  select * into t from turns where id = s.active_turn_id;
  if t.interrupted then return json_build_object('status', 'idle'); end if;
  first := append_events(s, t.id, json_build_array(json_build_object('type', 'interrupt-requested', 'data', json_build_object('reason', operation.reason))));
  update turns set interrupted = true where id = t.id;
  if t.state = 'running' then return json_build_object('status', 'interrupting', 'turn', t.id, 'seq', first); end if;
  update approvals set state = 'withdrawn', resolved_at = now() where turn_id = t.id and state = 'pending';
  update sessions set pending_input = null where id = s.id;
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond' where id = t.id;
  return json_build_object('status', 'resumed', 'turn', t.id, 'seq', first);
end $$;

-- An entry that no turn answers, such as a message delivered by a gateway.
create function note_event(operation turn_operation) returns json language plpgsql as $$
declare
  s sessions;
  first integer;
begin
  select * into s from sessions where id = operation.session and org_id = operation.org;
  if not found then return json_build_object('status', 'not-found'); end if;
  first := append_events(s, operation.turn, operation.events);
  update sessions set message_count = message_count + operation.messages,
    last_message_at = case when operation.messages > 0 then now() else last_message_at end where id = s.id;
  return json_build_object('status', 'done', 'seq', first);
end $$;

create function apply_turn_operations(operations json, process text, lease_ms integer, notify boolean) returns json language plpgsql as $$
declare
  batch turn_operation[];
  operation turn_operation;
  results json[] := '{}';
  touched text;
begin
  batch := array(select o from json_populate_recordset(null::turn_operation, operations) o);
  -- Always in this order, so that two processes cannot wait for each other.
  perform 1 from sessions where id in (select o.session from unnest(batch) o) order by id for update;
  perform 1 from budgets where org_id in (select o.org from unnest(batch) o where o.kind in ('admit', 'pause', 'end', 'resolve')) order by org_id for update;
  foreach operation in array batch loop
    results := results || case operation.kind
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
        select id, last_seq, row_number() over () / 40 as page from sessions where id in (select o.session from unnest(batch) o)
      ) s group by page
    loop
      perform pg_notify('parley', process || ' sessions ' || touched);
    end loop;
  end if;
  return json_build_object('at', now(), 'results', array_to_json(results));
end $$;
