-- An entry that no turn answers, such as a message delivered by a gateway. Like any message it is refused by a stopped session, with a
-- status that the version before, which may still run, takes for a refusal too.
create or replace function note_event(operation turn_operation) returns json language plpgsql as $$
declare
  s sessions;
  first integer;
begin
  select * into s from sessions where id = operation.session and org_id = operation.org;
  if not found then return json_build_object('status', 'not-found'); end if;
  if s.status = 'stopped' then return json_build_object('status', 'not-found', 'stopped', true); end if;
  first := append_events(s, operation.turn, operation.events);
  update sessions set message_count = message_count + operation.messages,
    last_message_at = case when operation.messages > 0 then now() else last_message_at end where id = s.id;
  return json_build_object('status', 'done', 'seq', first);
end $$;
