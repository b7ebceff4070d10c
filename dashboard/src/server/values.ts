// Choices for filters and forms that no route of the server lists. A test compares each with the server's own list.

export const roles = ['owner', 'admin', 'member'];
export const sessionStates = ['running', 'waiting', 'failed', 'idle', 'stopped'];
export const surfaces = ['native', 'managed', 'chat', 'responses', 'gateway'];
/** The providers that need a key, so not the offline one. */
export const providers = ['openai', 'anthropic', 'google', 'openai-compatible'];
export const auditActions = [
  'api_key.created',
  'api_key.revoked',
  'agent.created',
  'agent.updated',
  'agent.deleted',
  'release.created',
  'release.activated',
  'budget.updated',
  'webhook_endpoint.created',
  'webhook_endpoint.updated',
  'webhook_endpoint.deleted',
  'webhook_endpoint.enabled',
  'webhook_endpoint.disabled',
  'webhook_endpoint.secret_rotated',
  'model_credential.stored',
  'model_credential.deleted',
  'model_credential.tested',
  'member.invited',
  'member.joined',
  'member.role_changed',
  'member.removed',
  'organization.updated',
  'organization.suspended',
  'organization.resumed',
  'subscription.updated',
  'session_token.minted',
  'audit_log.exported',
];
