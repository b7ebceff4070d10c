-- The chat-completions and responses adapters. Their answers are read from the log: a response's id is made of its turn's.

-- A caller of theirs may ask that nothing be kept: such a session goes when its turn has ended.
alter table sessions add column if not exists stored boolean not null default true;
create index if not exists unstored_sessions on sessions (updated_at) where not stored;

-- A response that was deleted is not found again, while the conversation that it was part of goes on.
create table if not exists deleted_responses (
  id text primary key,
  org_id integer not null,
  session_id text not null,
  turn_id text not null
);
create index if not exists deleted_responses_of_session on deleted_responses (session_id);
