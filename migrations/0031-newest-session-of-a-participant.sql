-- The newest session that a participant is in, as one row of an index: the names in each session can be searched but not ordered,
-- and all of a participant's sessions were read for each delivery that names none, half a second for 100,000.
create table if not exists session_participants (
  session_id text not null,
  name text not null,
  org_id integer not null,
  created_at timestamptz not null,    -- when the session was made
  primary key (session_id, name)
);

create or replace function remember_participants() returns trigger language plpgsql as $$
begin
  insert into session_participants (session_id, name, org_id, created_at)
  select new.id, p ->> 'name', new.org_id, new.created_at from json_array_elements(new.participants) p
  on conflict do nothing;
  return null;
end $$;

-- Whoever writes sessions meanwhile waits for the rest of this file.
create or replace trigger participants_remembered after update of participants on sessions for each row execute function remember_participants();

insert into session_participants (session_id, name, org_id, created_at)
select s.id, p ->> 'name', s.org_id, s.created_at from sessions s, json_array_elements(s.participants) p where json_array_length(s.participants) > 0
on conflict do nothing;

create index if not exists sessions_of_participant on session_participants (org_id, name, created_at, session_id);
