import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { acceptInvitation, prepareAcceptance } from '../../accounts/accept-invitation.ts';
import type { Member } from '../../accounts/members.ts';
import type { Context } from '../../context.ts';
import { orNotFound, ServiceError } from '../../errors.ts';
import { requestActor } from '../shared/caller/actor.ts';
import type { Server } from '../shared/fastify.ts';
import { answered } from '../shared/schemas/answers.ts';
import { emailField, strangersBodyLimit } from '../shared/schemas/fields.ts';
import { Type } from '../shared/schemas/type.ts';
import { memberObject, showMember } from './members.ts';

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

/** Joining needs no API key: the invitation's token is the credential. */
export function acceptInvitationRoute(server: Server, context: Context): void {
  server.post(
    '/api/invitations/accept',
    {
      config: { family: 'management' },
      bodyLimit: strangersBodyLimit,
      schema: {
        tags: ['Members'],
        summary: 'Accept an invitation',
        description:
          'The token is the credential. Someone who has an account already gives its password; `email` is needed only where the invitation names none. Whoever has joined gets the same answer again.',
        security: [],
        body: acceptBody,
        response: answered(201, Type.Object({ member: memberObject })),
      },
    },
    async (request, reply) => {
      const { joining } = context.signIn;
      // The same request may have been sent twice at once, and the other one has joined: the second look finds that.
      const member = await joining.during(
        request.ip,
        async () => (await join(context, request)) ?? orNotFound(await join(context, request)),
      );
      joining.forget(request.ip);
      return reply.code(201).send({ member: showMember(member) });
    },
  );
}

/** Undefined when the invitation was accepted or withdrawn meanwhile. */
async function join(context: Context, request: FastifyRequest<{ Body: Static<typeof acceptBody> }>): Promise<Member | undefined> {
  const { signIn, database, directory } = context;
  const actor = requestActor(context, request);
  // Counted as when signing in: otherwise someone who may invite could guess anybody's password here.
  const countAttempt = (account: string) => signIn.guesses.count(account);
  const acceptance = orNotFound(await prepareAcceptance(database.db, actor.at, request.body, countAttempt));
  const { orgId, email } = acceptance;
  signIn.guesses.forget(email);
  const organization = await directory.organizationById(orgId);
  if (organization?.status === 'suspended') throw new ServiceError('forbidden', 'Organization suspended');
  return directory.change(orgId, (transaction) => acceptInvitation(transaction, { ...actor, orgId }, acceptance));
}
