-- All agents of an organization that have or had a slug, for their usage: the index of those that are not deleted leaves the others out,
-- and the agents of all organizations were read. The slug is first, so that nobody looks up an agent by its org and id in it (see 0019).
create index if not exists agents_that_had_slug on agents (slug, org_id);
