-- Until when the process that works on a request is known to; one that falls silent holds the key of its request no longer.
alter table idempotency_keys add column if not exists held_until timestamptz;
