-- Finds the few sessions that were stopped among all the others. Partial, so that a turn does not write it.
create index if not exists sessions_stopped on sessions (org_id, agent_id, updated_at desc, id desc) where status = 'stopped';
