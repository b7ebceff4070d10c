-- Only an owner makes or unmakes owners; so does not a key that an admin made, nor one that was made with such a key.
alter table api_keys add column if not exists manages_owners boolean not null default true;
