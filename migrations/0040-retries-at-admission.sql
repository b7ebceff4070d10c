-- The automatic retry of a client library looks for the turn that it repeats once more when it is admitted. Before, it was looked for
-- only ahead of that: a request that waited for the database while its client gave up and sent it again ran twice.
do $$ begin
  alter type turn_operation add attribute "isRetry" boolean;
exception when duplicate_column then null;
end $$;

-- Messages to sessions that are free: their turns begin. Not those with an idempotency key, sent again by a client library,
-- with a participant who may be new to the session, or with staged files. All parts of the statement see the tables as they were
-- before it, and the sessions are locked: `message` is the same for each.
create or replace function admit_alike(batch turn_operation[], sessions_once text[], orgs integer[], process text, lease_ms integer)
returns table (place bigint, result json) language plpgsql as $$
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
end $$;

-- Takes a message: gives it its turn where the session is free, else its place in line. In this order: the session, the
-- idempotency key, the budget, the session's state; so that a repetition is answered as the first was, whatever has changed
-- since. A refusal gives the key back: nothing was done under it. What a client library sends again is answered with the turn that
-- it started, if there is one, or with what was kept of it when its session was deleted. The row of `budgets` is locked: nobody
-- else is starting that turn.
create or replace function admit_turn(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
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
end $$;
