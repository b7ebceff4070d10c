-- Adds a participant, or what is new about one: where it is reached, and which session it talks from there. That of another gateway is
-- not taken along to where it is reached now, which would know nothing of it and refuse what is sent.
create or replace function join_session(for_session text, participant jsonb) returns void language plpgsql as $$
begin
  update sessions set participants = (
    select coalesce(jsonb_agg(case
        when p ->> 'name' <> participant ->> 'name' then p
        when p ->> 'gateway_url' <> participant ->> 'gateway_url' then p - 'gateway_session_id' || participant
        else p || participant end order by place), '[]')
      || case when bool_or(p ->> 'name' = participant ->> 'name') then '[]' else jsonb_build_array(participant) end
    from jsonb_array_elements(participants::jsonb) with ordinality as entry (p, place))::json
  where id = for_session and not participants::jsonb @> jsonb_build_array(participant);
end $$;
