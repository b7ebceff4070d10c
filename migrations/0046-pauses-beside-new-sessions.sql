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
end $$;
