import type { Context } from '../../context.ts';
import type { Server } from '../shared/fastify.ts';
import { acceptInvitationRoute } from './accept-invitation.ts';
import { agentRoutes } from './agents.ts';
import { apiKeyRoutes } from './api-keys.ts';
import { auditRoutes } from './audit.ts';
import { budgetRoutes } from './budget.ts';
import { invitationRoutes } from './invitations.ts';
import { memberRoutes } from './members.ts';
import { modelCredentialRoutes } from './model-credentials.ts';
import { organizationRoutes } from './organization.ts';
import { releaseRoutes } from './releases.ts';
import { sessionTokenRoutes } from './session-tokens.ts';
import { signInRoutes } from './sign-in.ts';
import { usageRoutes } from './usage.ts';
import { webhookDeliveryRoutes } from './webhook-deliveries.ts';
import { webhookRoutes } from './webhooks.ts';

/** The management API: everything that an organization configures and reviews. */
export function managementRoutes(server: Server, context: Context): void {
  agentRoutes(server, context);
  releaseRoutes(server, context);
  sessionTokenRoutes(server, context);
  apiKeyRoutes(server, context);
  organizationRoutes(server, context);
  budgetRoutes(server, context);
  usageRoutes(server, context);
  memberRoutes(server, context);
  invitationRoutes(server, context);
  acceptInvitationRoute(server, context);
  modelCredentialRoutes(server, context);
  webhookRoutes(server, context);
  webhookDeliveryRoutes(server, context);
  auditRoutes(server, context);
  signInRoutes(server, context);
}
