-- Answers that are kept for a client library's own retry, which has no key of its own: found by their age, since they go soon.
create index if not exists answers_to_retries on idempotency_keys (created_at) where key like E'retry\n%';
