-- What a tool did to the workspace, written with its result. A change without content is a deletion. The changes are read once and
-- not once for every file, which took half a minute for 2,000; and in the order of their paths, so that two who write the same
-- files do not wait for each other.
create or replace function write_files(s sessions, changes json) returns void language plpgsql as $$
declare
  deleted text[] := array(select path from json_to_recordset(changes) as change (path text, content text) where content is null);
begin
  if cardinality(deleted) > 0 then
    delete from workspace_files where org_id = s.org_id and agent_id = s.agent_id and instance_key = s.instance_key and path = any (deleted);
  end if;
  insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
  select s.org_id, s.agent_id, s.instance_key, change.path, decode(change.content, 'base64'), change.size
  from json_to_recordset(changes) as change (path text, content text, size integer) where change.content is not null order by change.path
  on conflict (org_id, agent_id, instance_key, path) do update set content = excluded.content, size = excluded.size, updated_at = now();
end $$;
