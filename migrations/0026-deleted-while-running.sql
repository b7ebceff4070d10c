-- Of a response that was deleted while a turn of its session still ran, the session may be without any once that turn has ended.
alter table deleted_responses add column if not exists while_running boolean not null default false;
create index if not exists deleted_while_running on deleted_responses (session_id) where while_running;
