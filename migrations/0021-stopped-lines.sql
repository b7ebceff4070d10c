-- What waits when a session is stopped never runs, also where the session is resumed before the turn ahead of it has ended.

-- Asks the active turn to end. A paused one is taken up by this process, so that it can end properly; it reserves nothing,
-- since all it will do is end. That holds also for one that paused in spite of an interrupt, before 0020.
-- `stop` also closes the session to new messages, and marks those that wait.
create or replace function interrupt_turn(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
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
  if s.active_turn_id is null then return json_build_object('status', 'idle'); end if;
  select * into t from turns where id = s.active_turn_id;
  if t.interrupted and t.state = 'running' then return json_build_object('status', 'idle'); end if;
  first := append_events(s, t.id, json_build_array(json_build_object('type', 'interrupt-requested', 'data', json_build_object('reason', operation.reason))));
  update turns set interrupted = true where id = t.id;
  if t.state = 'running' then return json_build_object('status', 'interrupting', 'turn', t.id, 'seq', first); end if;
  update approvals set state = 'withdrawn', resolved_at = now() where turn_id = t.id and state = 'pending';
  update sessions set pending_input = null where id = s.id;
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond' where id = t.id;
  return json_build_object('status', 'resumed', 'turn', t.id, 'seq', first);
end $$;

-- The turn has left the session free: the next message in line takes its place. Those that a stop found waiting are ended
-- before, and where none is left the answer says how far the log then goes.
create or replace function start_next_turn(for_session text, process text, lease_ms integer) returns json language plpgsql as $$
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
  end loop;
  return (select json_build_object('endedThrough', last_seq) from sessions where id = for_session);
end $$;
