-- Where a turn ends, the replies that are owed in its session are found by it, however many events wait for an approval elsewhere.
create index if not exists gateway_events_owed on gateway_events (session_id) where state = 'admitted';
