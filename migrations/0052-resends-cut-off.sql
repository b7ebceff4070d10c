-- Whether a delivery was claimed for a test or a resend, until its outcome is recorded or the claim is given up. The claim answers the
-- request for a resend: a process that was stopped, or died, during it left a delivery whose next attempt counted as a failure, or was
-- never made because its endpoint is disabled.
alter table deliveries add column if not exists claimed_manually boolean not null default false;
