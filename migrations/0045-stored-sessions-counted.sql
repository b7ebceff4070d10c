-- Adds to each count what it lacks. Sessions come and go meanwhile: the statement sees them and their counts as of one moment, and what
-- the triggers add to the counts after it is kept.
insert into session_counts as counted (agent_id, release_version, surface, sessions)
select agent_id, release_version, surface, sum(lacking) from (
  select agent_id, release_version, surface, count(*) as lacking from sessions group by agent_id, release_version, surface
  union all
  select agent_id, release_version, surface, -sessions from session_counts
) compared
group by agent_id, release_version, surface having sum(lacking) <> 0 order by agent_id, release_version, surface
on conflict (agent_id, release_version, surface) do update set sessions = counted.sessions + excluded.sessions;
