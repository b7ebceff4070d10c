-- How many sessions of an agent are pinned to each release and came over each API, so that nobody has to count or scan sessions for that.
-- Neither ever changes of a session. Triggers keep the numbers, so that they are right whichever version of the program writes; the next
-- migration adds the sessions that are there already.
create table if not exists session_counts (
  agent_id integer not null,
  release_version integer not null,
  surface text not null,
  sessions integer not null,
  primary key (agent_id, release_version, surface)
);

create or replace function count_new_sessions() returns trigger language plpgsql as $$
begin
  -- In this order, so that two processes cannot deadlock.
  insert into session_counts as counted (agent_id, release_version, surface, sessions)
  select agent_id, release_version, surface, count(*) from added group by agent_id, release_version, surface order by 1, 2, 3
  on conflict (agent_id, release_version, surface) do update set sessions = counted.sessions + excluded.sessions;
  return null;
end $$;

create or replace function count_dropped_session() returns trigger language plpgsql as $$
begin
  -- Also where no row is to be seen: the next migration may just be adding it, with this session in it.
  insert into session_counts as counted (agent_id, release_version, surface, sessions)
  values (old.agent_id, old.release_version, old.surface, -1)
  on conflict (agent_id, release_version, surface) do update set sessions = counted.sessions - 1;
  return null;
end $$;

create or replace trigger new_sessions_counted after insert on sessions referencing new table as added
  for each statement execute function count_new_sessions();
-- At the end of the transaction: otherwise whoever creates a session would wait until all that belongs to a dropped one is deleted.
drop trigger if exists dropped_session_counted on sessions;
create constraint trigger dropped_session_counted after delete on sessions deferrable initially deferred
  for each row execute function count_dropped_session();
