import type { Role } from './principal.ts';

/** Everything an API key can be allowed to do. Conversations need no scope; reading their transcripts does. */
export const allScopes = [
  'agents:read',
  'agents:write',
  'releases:read',
  'releases:write',
  'session_tokens:mint',
  'api_keys:read',
  'api_keys:write',
  'organization:read',
  'organization:write',
  'budgets:read',
  'budgets:write',
  'usage:read',
  'members:read',
  'members:write',
  'model_credentials:write',
  'webhooks:read',
  'webhooks:write',
  'audit_log:export',
  'sessions:read',
] as const;

export type Scope = (typeof allScopes)[number];

const everything: ReadonlySet<string> = new Set(allScopes);
const readOnly: ReadonlySet<string> = new Set(allScopes.filter((scope) => scope.endsWith(':read')));

export function isScope(value: string): value is Scope {
  return everything.has(value);
}

/** What a signed-in member may do. */
export function scopesOfRole(role: Role): ReadonlySet<string> {
  return role === 'member' ? readOnly : everything;
}
