-- A visitor is an end user whom nobody vouched for: the id came from a browser with an anonymous token. Kept apart from
-- verified end users of the same id, who must not be reached by guessing it.
alter table sessions add column if not exists is_visitor boolean not null default false;

create index if not exists approvals_of_session on approvals (session_id) where decision = 'approve_session';
