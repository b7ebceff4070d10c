import type { FastifyRequest } from 'fastify';
import { acceptInvitation, prepareAcceptance } from '../../accounts/accept-invitation.ts';
import {
  changeInvitedRole,
  findInvitation,
  type Invitation,
  invite,
  listInvitations,
  withdrawInvitation,
} from '../../accounts/invitations.ts';
import type { Role } from '../../accounts/principal.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { orNotFound, ServiceError } from '../../errors.ts';
import { requestActor } from '../shared/caller/actor.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { change, changeOnce, remove } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { pathNumber, requireFound } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { emailField, roleField } from '../shared/schemas/fields.ts';
import { decodeIntegerCursor, limitOf, listOf, pageQuery, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { memberObject, showMember } from './members.ts';
import { assertMayGrant } from './roles.ts';

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

const acceptBody = Type.Object(
  {
    token: Type.String({ maxLength: 200 }),
    name: Type.String({ minLength: 1, maxLength: 200 }),
    password: Type.String({ minLength: 10, maxLength: 256 }),
    email: Type.Optional(emailField),
  },
  {
    title: 'AcceptInvitation',
    additionalProperties: false,
    examples: [{ token: 'inv_...', name: 'Ada Lovelace', password: 'correct horse battery staple' }],
  },
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
      const before = decodeIntegerCursor(request.query.cursor);
      const { id: orgId } = principalOf(request).organization;
      return readPage(
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
      const { email: address, role = 'member' } = request.body;
      assertMayGrant(principalOf(request), role);
      return changeOnce(context, request, reply, 201, async (transaction, actor) => {
        const { invitation, token } = await invite(transaction, actor, { email: address, role });
        return { invitation: showInvitation(invitation), token };
      });
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
        description: 'Its token stays valid. Nobody can grant or remove a role with more permissions than their own.',
        body: updateBody,
        response: answered(200, answer),
      },
    },
    async (request) => {
      const { role } = request.body;
      const { id } = await invitationOfPath(request);
      const assertMay = (granted: Role) => assertMayGrant(principalOf(request), granted);
      assertMay(role);
      const invitation = await change(context, request, (transaction, actor) => changeInvitedRole(transaction, actor, id, role, assertMay));
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
      return remove(context, request, reply, (transaction, actor) => withdrawInvitation(transaction, actor, id));
    },
  );

  server.post(
    '/api/invitations/accept',
    {
      config,
      schema: {
        tags,
        summary: 'Accept an invitation',
        description:
          'The token is the credential. Someone who has an account already gives its password; `email` is needed only where the invitation names none.',
        security: [],
        body: acceptBody,
        response: answered(201, Type.Object({ member: memberObject })),
      },
    },
    async (request, reply) => {
      const { token, name, password, email: address } = request.body;
      if (!context.signIn.mayTry(`invitation ${request.ip}`))
        throw new ServiceError('rate-limited', 'Too many attempts', { retryAfterSeconds: 600 });
      const actor = requestActor(context, request);
      const acceptance = orNotFound(await prepareAcceptance(context.database.db, actor.at, { token, name, password, email: address }));
      const { orgId } = acceptance;
      const organization = await context.directory.organizationById(orgId);
      if (organization?.status === 'suspended') throw new ServiceError('forbidden', 'Organization suspended');
      const member = await context.directory.change(orgId, (transaction) => acceptInvitation(transaction, { ...actor, orgId }, acceptance));
      context.signIn.succeeded(`invitation ${request.ip}`);
      return reply.code(201).send({ member: showMember(member) });
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
