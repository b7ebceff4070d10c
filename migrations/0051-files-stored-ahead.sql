-- Large contents are stored ahead of the operation that changes the files: in the operation, all turns of the process waited for them, five
-- seconds for 50 MB. They are under an instance of their own, `ahead:<name>`, and the operation moves them to their place.
do $$ begin
  alter type file_change add attribute ahead text;
exception when duplicate_column then null;
end $$;

-- What was never moved is found and deleted.
create index if not exists files_stored_ahead on workspace_files (updated_at) where instance_key like 'ahead:%';

-- What a tool did to its workspace, written with its result. A change without content is a deletion, unless its content was stored ahead.
-- False, and nothing is written, if the organization's files would grow beyond the operation's limit. The changes are read once and not
-- once for every file, which took half a minute for 2,000. The organization's row of `budgets` is locked.
create or replace function write_files(s sessions, operation turn_operation) returns boolean language plpgsql as $$
declare
  changes file_change[] := array(select c from json_populate_recordset(null::file_change, operation.files) c);
  change file_change;
  growth bigint;
begin
  -- Looked up one by one, since a join would compare every change with every file.
  select coalesce(sum(c.size - coalesce((select f.size from workspace_files f
    where f.org_id = s.org_id and f.agent_id = s.agent_id and f.instance_key = s.instance_key and f.path = c.path), 0)), 0)
  into growth from unnest(changes) c;
  if growth > 0 and (select file_bytes + growth > operation."maxFileBytes" from budgets where org_id = s.org_id) then
    delete from workspace_files where org_id = s.org_id and agent_id = s.agent_id
      and instance_key = any (array(select distinct 'ahead:' || c.ahead from unnest(changes) c where c.ahead is not null));
    return false;
  end if;
  foreach change in array changes loop
    if change.content is null then
      delete from workspace_files where org_id = s.org_id and agent_id = s.agent_id and instance_key = s.instance_key and path = change.path;
    else
      insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
      values (s.org_id, s.agent_id, s.instance_key, change.path, decode(change.content, 'base64'), change.size)
      on conflict (org_id, agent_id, instance_key, path) do update set content = excluded.content, size = excluded.size, updated_at = now();
    end if;
    if change.ahead is not null then
      update workspace_files set instance_key = s.instance_key, size = change.size, updated_at = now()
      where org_id = s.org_id and agent_id = s.agent_id and instance_key = 'ahead:' || change.ahead and path = change.path;
      if not found then raise exception 'the content of % is not stored', change.path; end if;
    end if;
  end loop;
  if growth <> 0 then update budgets set file_bytes = greatest(0, file_bytes + growth) where org_id = s.org_id; end if;
  return true;
end $$;
