-- Sessions are listed by agent, and an agent belongs to one org. With the org first, these indexes also seemed fit to look up one
-- session of an org, to a planner that knows nothing of the table yet: each message then read an entry of every session of its
-- org until the table was first analyzed.
drop index sessions_by_activity;
drop index sessions_of_end_user;
drop index sessions_stopped;
create index sessions_by_activity on sessions (agent_id, updated_at desc, id desc);
create index sessions_of_end_user on sessions (agent_id, end_user_id, updated_at desc, id desc) where end_user_id is not null;
create index sessions_stopped on sessions (agent_id, updated_at desc, id desc) where status = 'stopped';
