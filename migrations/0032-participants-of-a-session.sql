-- A session has at most 100 participants, whichever way they come. With thousands, each message of another one wrote all of them again,
-- for a tenth of a second and more, in which nobody's turn could be written.

-- Takes a message: gives it its turn where the session is free, else its place in line. In this order: the session, the
-- idempotency key, the budget, the session's state; so that a repetition is answered as the first was, whatever has changed
-- since. A refusal gives the key back: nothing was done under it.
create or replace function admit_turn(operation turn_operation, process text, lease_ms integer) returns json language plpgsql as $$
declare
  s sessions;
  key_row idempotency_keys;
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
