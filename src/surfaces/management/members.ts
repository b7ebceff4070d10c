import type { FastifyRequest } from 'fastify';
import { changeRole, findMember, listMembers, type Member, removeMember } from '../../accounts/members.ts';
import type { Principal, Role } from '../../accounts/principal.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { orNotFound, ServiceError } from '../../errors.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { change, remove } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { pathParameter, requireFound } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { roleField } from '../shared/schemas/fields.ts';
import { decodeTextCursor, limitOf, listOf, pageQuery, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { assertMayGrant, highestRoleFor } from './roles.ts';

const tags = ['Members'];
const config = { family: 'management' as const };

export const memberObject = Type.Object(
  { id: Type.String(), email: Type.String(), name: Type.String(), role: roleField, created_at: Type.String() },
  { title: 'Member' },
);

const updateBody = Type.Object({ role: roleField }, { title: 'UpdateMember', additionalProperties: false, examples: [{ role: 'admin' }] });
const answer = Type.Object({ member: memberObject });

export function memberRoutes(server: Server, context: Context): void {
  const memberOfPath = async (request: FastifyRequest): Promise<Member> => {
    const id = pathParameter(request, 'id');
    const isId = /^[A-Za-z0-9-]{1,64}$/.test(id);
    return orNotFound(isId ? await findMember(context.database.db, principalOf(request).organization.id, id) : undefined);
  };

  server.get(
    '/api/members',
    {
      config,
      onRequest: [requireKey(context, 'members:read')],
      schema: { tags, summary: 'List members', querystring: Type.Object(pageQuery), response: answered(200, listOf(memberObject)) },
    },
    async (request) => {
      const after = decodeTextCursor('members', request.query.cursor);
      return readPage(
        'members',
        limitOf(request.query),
        (limit) => listMembers(context.database.db, principalOf(request).organization.id, { limit, after }),
        (member) => member.userId,
        showMember,
      );
    },
  );

  server.get(
    '/api/members/:id',
    {
      config,
      onRequest: [requireKey(context, 'members:read')],
      schema: { tags, summary: 'Fetch a member', response: answered(200, answer) },
    },
    async (request) => ({ member: showMember(await memberOfPath(request)) }),
  );

  server.patch(
    '/api/members/:id',
    {
      config,
      onRequest: [requireKey(context, 'members:write'), requireFound(memberOfPath)],
      schema: {
        tags,
        summary: "Change a member's role",
        description: 'Nobody can grant or remove a role with more permissions than their own. The last owner cannot be changed (409).',
        body: updateBody,
        response: answered(200, answer),
      },
    },
    async (request) => {
      const { role } = request.body;
      const { userId } = await memberOfPath(request);
      const principal = principalOf(request);
      assertMayGrant(principal, role);
      const assertMayRevoke = revocationCheck(principal);
      const member = await change(context, request, (transaction, actor) => changeRole(transaction, actor, userId, role, assertMayRevoke));
      return { member: showMember(orNotFound(member)) };
    },
  );

  server.delete(
    '/api/members/:id',
    {
      config,
      onRequest: [requireKey(context, 'members:write')],
      schema: { tags, summary: 'Remove a member', response: answered(204, Type.Null()) },
    },
    async (request, reply) => {
      const { userId } = await memberOfPath(request);
      const principal = principalOf(request);
      const limits = { highestRole: highestRoleFor(principal), assertMayRevoke: revocationCheck(principal) };
      return remove(context, request, reply, (transaction, actor) => removeMember(transaction, actor, userId, limits));
    },
  );
}

/** Who may grant a role may also revoke it. The caller's own role may have been changed since the request was authenticated. */
function revocationCheck(principal: Principal): (role: Role, own: Role | undefined) => void {
  return (role, own) => {
    if (principal.type === 'member' && own !== principal.role) throw new ServiceError('conflict', 'Your own role was changed meanwhile');
    assertMayGrant(principal, role);
  };
}

export function showMember(member: Member) {
  return { id: member.userId, email: member.email, name: member.name, role: member.role, created_at: timestamp(member.createdAt) };
}
