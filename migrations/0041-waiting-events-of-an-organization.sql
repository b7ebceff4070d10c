-- By it, an organization's waiting events are found although thousands of another's are older.
create index if not exists webhook_events_waiting_of_org on webhook_events (org_id, created_at) where not fanned_out;
