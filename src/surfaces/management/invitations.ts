import type { FastifyRequest } from 'fastify';
import {
  changeInvitedRole,
  findInvitation,
  highestRoleOf,
  type Invitation,
  invite,
  listInvitations,
  withdrawInvitation,
} from '../../accounts/invitations.ts';
import type { Role } from '../../accounts/principal.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { orNotFound } from '../../errors.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { change, changeOnce, remove } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { pathNumber, requireFound } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { emailField, roleField } from '../shared/schemas/fields.ts';
import { decodeIntegerCursor, limitOf, listOf, pageQuery, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { assertMayGrant, highestRoleFor } from './roles.ts';

const tags = ['Members'];
const config = { family: 'management' as const };

const invitationObject = Type.Object(
  {
    id: Type.Integer(),
    email: Type.Union([Type.String(), Type.Null()]),
    role: roleField,
    created_at: Type.String(),
    expires_at: Type.String(),
  },
  { title: 'Invitation' },
);

const inviteBody = Type.Object(
  { email: emailField, role: Type.Optional(roleField) },
  { title: 'CreateInvitation', additionalProperties: false, examples: [{ email: 'ada@example.com', role: 'admin' }] },
);

const updateBody = Type.Object(
  { role: roleField },
  { title: 'UpdateInvitation', additionalProperties: false, examples: [{ role: 'admin' }] },
);
const answer = Type.Object({ invitation: invitationObject });

export function invitationRoutes(server: Server, context: Context): void {
  const invitationOfPath = async (request: FastifyRequest): Promise<Invitation> => {
    const { id: orgId } = principalOf(request).organization;
    return orNotFound(await findInvitation(context.database.db, orgId, context.clock.now(), pathNumber(request, 'id')));
  };

  server.get(
    '/api/invitations',
    {
      config,
      onRequest: [requireKey(context, 'members:read')],
      schema: {
        tags,
        summary: 'List open invitations',
        querystring: Type.Object(pageQuery),
        response: answered(200, listOf(invitationObject)),
      },
    },
    async (request) => {
      const before = decodeIntegerCursor('invitations', request.query.cursor);
      const { id: orgId } = principalOf(request).organization;
      return readPage(
        'invitations',
        limitOf(request.query),
        (limit) => listInvitations(context.database.db, orgId, context.clock.now(), { limit, before }),
        (invitation) => invitation.id,
        showInvitation,
      );
    },
  );

  server.post(
    '/api/invitations',
    {
      config,
      onRequest: [requireKey(context, 'members:write')],
      schema: {
        tags,
        summary: 'Invite someone',
        description: 'No mail is sent: pass on the link /dashboard/join?token=... yourself. The token works once, for seven days.',
        body: inviteBody,
        response: answered(201, Type.Object({ invitation: invitationObject, token: Type.String() })),
      },
    },
    async (request, reply) => {
      const { email, role = 'member' } = request.body;
      const principal = principalOf(request);
      assertMayGrant(principal, role);
      const highestRole = highestRoleFor(principal);
      const answer = await changeOnce(context, request, reply, 201, async (transaction, actor) => {
        const { invitation, token } = await invite(transaction, actor, { email, role, highestRole });
        return { invitation: showInvitation(invitation), token };
      });
      // Only in a repetition of another's request: the invitation can be given a role that the caller cannot grant.
      assertMayGrant(principal, orNotFound(await highestRoleOf(context.database.db, principal.organization.id, answer.invitation.id)));
      return answer;
    },
  );

  server.get(
    '/api/invitations/:id',
    {
      config,
      onRequest: [requireKey(context, 'members:read')],
      schema: { tags, summary: 'Fetch an open invitation', response: answered(200, answer) },
    },
    async (request) => ({ invitation: showInvitation(await invitationOfPath(request)) }),
  );

  server.patch(
    '/api/invitations/:id',
    {
      config,
      onRequest: [requireKey(context, 'members:write'), requireFound(invitationOfPath)],
      schema: {
        tags,
        summary: 'Change the role of an invitation',
        description:
          'Its token stays valid. Nobody can grant or remove a role with more permissions than their own. A role that whoever made the invitation could not grant is 409.',
        body: updateBody,
        response: answered(200, answer),
      },
    },
    async (request) => {
      const { role } = request.body;
      const { id } = await invitationOfPath(request);
      const assertMayRevoke = (revoked: Role) => assertMayGrant(principalOf(request), revoked);
      assertMayGrant(principalOf(request), role);
      const invitation = await change(context, request, (transaction, actor) =>
        changeInvitedRole(transaction, actor, id, role, assertMayRevoke),
      );
      return { invitation: showInvitation(orNotFound(invitation)) };
    },
  );

  server.delete(
    '/api/invitations/:id',
    {
      config,
      onRequest: [requireKey(context, 'members:write')],
      schema: { tags, summary: 'Withdraw an invitation', response: answered(204, Type.Null()) },
    },
    async (request, reply) => {
      const id = pathNumber(request, 'id');
      const assertMayRevoke = (revoked: Role) => assertMayGrant(principalOf(request), revoked);
      return remove(context, request, reply, (transaction, actor) => withdrawInvitation(transaction, actor, id, assertMayRevoke));
    },
  );
}

function showInvitation(invitation: Invitation) {
  return {
    id: invitation.id,
    email: invitation.email ?? null,
    role: invitation.role,
    created_at: timestamp(invitation.createdAt),
    expires_at: timestamp(invitation.expiresAt),
  };
}
