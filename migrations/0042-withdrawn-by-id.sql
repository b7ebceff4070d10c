-- Withdraws the request of a paused turn by its id, which the session has. By its turn, for which there is no index, all that waited
-- were looked at: with 50,000 of them a statement with 256 stops, as when their agent is deleted, took five seconds. Without their
-- state, by which a table that was never analyzed would be read all the same.

-- Asks the active turn to end. A paused one is taken up by this process, so that it can end properly; it reserves nothing,
-- since all it will do is end. That holds also for one that paused in spite of an interrupt, before 0020.
-- `stop` also closes the session to new messages, and marks those that wait. With a turn, only that one is asked to end: it is
-- marked if it waits, and stays as it is if it is paused.
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
  if operation.turn is distinct from s.active_turn_id and operation.turn is not null then
    update turns set interrupted = true where id = operation.turn and session_id = s.id and state = 'queued';
    return json_build_object('status', case when found then 'queued' else 'idle' end);
  end if;
  if s.active_turn_id is null then return json_build_object('status', 'idle'); end if;
  select * into t from turns where id = s.active_turn_id;
  if t.interrupted and t.state = 'running' then return json_build_object('status', 'idle'); end if;
  if t.state = 'paused' and operation.turn is not null then return json_build_object('status', 'idle'); end if;
  first := append_events(s, t.id, json_build_array(json_build_object('type', 'interrupt-requested', 'data', json_build_object('reason', operation.reason))));
  update turns set interrupted = true where id = t.id;
  if t.state = 'running' then return json_build_object('status', 'interrupting', 'turn', t.id, 'seq', first); end if;
  update approvals set state = 'withdrawn', resolved_at = now() where request_id = s.pending_input ->> 'request_id';
  update sessions set pending_input = null where id = s.id;
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond' where id = t.id;
  return json_build_object('status', 'resumed', 'turn', t.id, 'seq', first);
end $$;
