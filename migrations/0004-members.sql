-- The people of an org: who they are and how they sign in to the dashboard.

create table users (
  id text primary key,
  name text not null,
  email text not null unique,       -- in lower case
  email_verified boolean not null default false,
  image text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table user_accounts (
  id text primary key,
  user_id text not null references users (id) on delete cascade,
  account_id text not null,
  provider_id text not null,        -- 'credential': e-mail and password
  password text,                    -- scrypt
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index user_accounts_of_user on user_accounts (user_id);

create table user_sessions (
  id text primary key,
  user_id text not null references users (id) on delete cascade,
  token text not null unique,
  expires_at timestamptz not null,
  ip_address text,
  user_agent text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index user_sessions_of_user on user_sessions (user_id);

create table user_verifications (
  id text primary key,
  identifier text not null,
  value text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table user_rate_limits (
  id text primary key,
  key text not null unique,
  count integer not null,
  last_request bigint not null
);

create table members (
  org_id integer not null references organizations (id),
  user_id text not null references users (id),
  role text not null check (role in ('owner', 'admin', 'member')),
  created_at timestamptz not null default now(),
  primary key (org_id, user_id)
);
create index members_of_user on members (user_id);

create table invitations (
  id integer generated always as identity primary key,
  org_id integer not null references organizations (id),
  email text,                       -- null: whoever holds the link, such as the first owner
  role text not null check (role in ('owner', 'admin', 'member')),
  token_hash text not null unique,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  revoked_at timestamptz
);
create index invitations_of_org on invitations (org_id, id);

create index releases_unfinished on releases (created_at) where state in ('pending', 'materializing');
create index audit_events_by_action on audit_events (org_id, action, id);
create index audit_events_by_time on audit_events (org_id, created_at);
