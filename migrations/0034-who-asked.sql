-- A request for an approval says whom its turn is with. To find that in what the turn had written took a second and more for one of some
-- thousand calls, in which nobody's turn could be written. Requests of the version before do not say it.

-- What the answer to an approval repeats of its request (`input`: its `echo`) is kept with it, for when that answer is read again.
create or replace function resolve_approval(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  a approvals;
  first integer;
  limited boolean;
  agent text;
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
  agent := coalesce(a.request ->> 'agent', agent_of_turn(s, a.turn_id));
  first := append_events(s, a.turn_id, json_build_array(
    json_build_object('type', 'approval-resolved', 'data', case when operation.input is null
      then json_build_object('requestId', a.request_id, 'callId', a.call_id, 'decision', operation.decision)
      else json_build_object('requestId', a.request_id, 'callId', a.call_id, 'decision', operation.decision, 'echo', operation.input -> 'echo') end),
    json_build_object('type', 'turn-resumed', 'data', json_build_object('agent', agent))));
  update approvals set state = 'resolved', decision = operation.decision, resolved_seq = first, resolved_at = now() where request_id = a.request_id;
  update sessions set pending_input = null where id = s.id;
  limited := is_limited(s.org_id);
  update turns set state = 'running', process_id = process, lease_until = now() + lease_ms * interval '1 millisecond',
    reserved_tokens = case when limited then operation."reserveTokens" else 0 end,
    reserved_micros = case when limited then operation."reserveMicros" else 0 end,
    reserved_credit_micros = case when limited then operation."reserveCreditMicros" else 0 end where id = a.turn_id;
  if limited then perform reserve_budget(s, operation."reserveTokens", operation."reserveCreditMicros", operation."reserveMicros"); end if;
  return json_build_object('status', 'resumed', 'turn', a.turn_id, 'seq', first, 'callId', a.call_id, 'agent', agent);
end $$;
