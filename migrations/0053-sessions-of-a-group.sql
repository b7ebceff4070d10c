-- The sessions of an agent that came over one API and are pinned to one release, newest activity first: where few of many were of that kind,
-- a page of them took a scan of the others. Both columns are in it because `session_counts` says which groups there are.
create index if not exists sessions_of_group on sessions (agent_id, surface, release_version, updated_at desc, id desc);
