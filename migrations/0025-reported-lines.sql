-- Those that a stop found waiting end as other turns do: webhooks tell of it.

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
    perform emit_webhook(s.org_id, 'turn.completed', json_build_object('session_id', s.id, 'turn_id', t.id,
      'agent', (select slug from agents where id = s.agent_id),
      'usage', json_build_object('input_tokens', 0, 'output_tokens', 0, 'total_tokens', 0), 'stop_reason', 'interrupted'));
  end loop;
  return (select json_build_object('endedThrough', last_seq) from sessions where id = for_session);
end $$;
