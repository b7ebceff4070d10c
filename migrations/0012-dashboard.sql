-- The dashboard's overview reads the turns of the last hour. Partial, so that a turn enters it once, when it ends.
create index turns_ended on turns (org_id, ended_at) where state = 'ended';
