-- Events between participants. Each is acted on once: by its id, for each thing that it is to do here.

create table gateway_events (
  org_id integer not null,
  event_id text not null,
  target text not null,               -- `submit`, `session <id>`, or `gateway <url> <recipient>`
  state text not null default 'received' check (state in ('received', 'admitted', 'done')),
  session_id text,
  turn_id text,                       -- of the turn that a submitted message runs; its reply is still to be delivered while `admitted`
  event json not null,
  created_at timestamptz not null default now(),
  primary key (org_id, event_id, target)
);
create index gateway_events_open on gateway_events (created_at) where state <> 'done';
create index gateway_events_by_age on gateway_events (created_at);

-- Finds the sessions that a participant is in.
create index sessions_by_participant on sessions using gin ((participants::jsonb) jsonb_path_ops) where json_array_length(participants) > 0;

-- Adds a participant, or what is new about one: where it is reached, and which session it talks from there.
create function join_session(for_session text, participant jsonb) returns void language plpgsql as $$
begin
  update sessions set participants = (
    select coalesce(jsonb_agg(case when p ->> 'name' = participant ->> 'name' then p || participant else p end order by place), '[]')
      || case when bool_or(p ->> 'name' = participant ->> 'name') then '[]' else jsonb_build_array(participant) end
    from jsonb_array_elements(participants::jsonb) with ordinality as entry (p, place))::json
  where id = for_session and not participants::jsonb @> jsonb_build_array(participant);
end $$;
