-- Deliveries that wait until their endpoint is enabled. By it they are found a few at a time, although as many others are pending.
create index if not exists deliveries_held_back on deliveries (endpoint_id, position) where state = 'pending' and due_at is null;
