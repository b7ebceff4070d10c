import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import { createApiKey } from '../../accounts/api-keys.ts';
import { changeBudget } from '../../accounts/budgets.ts';
import { invite } from '../../accounts/invitations.ts';
import { addInvoice } from '../../accounts/invoices.ts';
import { isOperatorKey } from '../../accounts/operator-key.ts';
import { changeStatus, changeSubscription, lockOrganization } from '../../accounts/organization-changes.ts';
import { listOrganizationSettings, type OrganizationSettings, readOrganizationSettings } from '../../accounts/organization-settings.ts';
import { createOrganization } from '../../accounts/organizations.ts';
import type { Organization } from '../../accounts/principal.ts';
import { allScopes } from '../../accounts/scopes.ts';
import type { Actor } from '../../audit/record.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
import { orNotFound } from '../../errors.ts';
import { requestActor } from '../shared/caller/actor.ts';
import { bearerOf, unauthorized } from '../shared/caller/authenticate.ts';
import type { Server } from '../shared/fastify.ts';
import { pathParameter, requireFound } from '../shared/path.ts';
import { amountField, emailField, roleField } from '../shared/schemas/fields.ts';
import { decodeIntegerCursor, limitOf, pageQuery, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { makeOnce, noOrganization } from './once.ts';

const createBody = Type.Object(
  { slug: Type.String(), name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })) },
  { additionalProperties: false },
);
const updateBody = Type.Object(
  {
    status: Type.Optional(Type.Enum(['active', 'suspended'])),
    credits_micros: Type.Optional(amountField),
    total_tokens_cap: Type.Optional(amountField),
    subscription: Type.Optional(
      Type.Object(
        { plan: Type.String({ minLength: 1, maxLength: 200 }), status: Type.Enum(['active', 'past_due', 'canceled']) },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);
const invoiceBody = Type.Object(
  { amount_cents: Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }), status: Type.Enum(['paid', 'payment_failed']) },
  { additionalProperties: false },
);
const invitationBody = Type.Object({ role: Type.Optional(roleField), email: Type.Optional(emailField) }, { additionalProperties: false });

type Work<Result> = (transaction: Db, actor: Actor) => Promise<Result>;

/** Routes for the operator of the installation. They are internal, so the OpenAPI document leaves them out. */
export function operatorRoutes(server: Server, context: Context): void {
  const { db } = context.database;
  const config = { family: 'management' as const };
  const requireOperator: onRequestAsyncHookHandler = async (request) => {
    const secret = bearerOf(request);
    if (secret === undefined || !(await isOperatorKey(db, secret))) throw unauthorized();
  };
  const onRequest = [requireOperator];
  const onRequestOfPath = [requireOperator, requireFound(organizationOfPath)];

  server.post('/operator/organizations', { config, onRequest, schema: { hide: true, body: createBody } }, async (request, reply) => {
    const { slug, name = slug } = request.body;
    const actor = requestActor(context, request);
    const answer = await db.transaction().execute((transaction) =>
      makeOnce(context, transaction, noOrganization, request, reply, async () => {
        const { id: orgId } = await createOrganization(transaction, { slug, name, at: actor.at });
        const key = { name: 'First key', scopes: allScopes, managesOwners: true };
        const { secret } = await createApiKey(transaction, { ...actor, orgId }, key);
        return { organization: showOrganization(await readOrganizationSettings(transaction, orgId)), api_key: secret };
      }),
    );
    return reply.code(201).send(answer);
  });

  server.get(
    '/operator/organizations',
    { config, onRequest, schema: { hide: true, querystring: Type.Object(pageQuery) } },
    async (request) => {
      const after = decodeIntegerCursor('organizations', request.query.cursor);
      const { data, next_cursor } = await readPage(
        'organizations',
        limitOf(request.query, 1_000, 1_000),
        (limit) => listOrganizationSettings(db, { limit, after }),
        (settings) => settings.id,
        showOrganization,
      );
      return { organizations: data, next_cursor };
    },
  );

  server.patch(
    '/operator/organizations/:slug',
    { config, onRequest: onRequestOfPath, schema: { hide: true, body: updateBody } },
    async (request) => {
      const { status, credits_micros: creditsMicros, total_tokens_cap: totalTokensCap, subscription } = request.body;
      return changeOrganizationOfPath(request, async (transaction, actor) => {
        await lockOrganization(transaction, actor.orgId);
        if (subscription !== undefined) await changeSubscription(transaction, actor, subscription);
        if (creditsMicros !== undefined || totalTokensCap !== undefined)
          await changeBudget(transaction, actor, { creditsMicros, totalTokensCap });
        if (status !== undefined) await changeStatus(transaction, actor, status);
        return { organization: showOrganization(await readOrganizationSettings(transaction, actor.orgId)) };
      });
    },
  );

  server.post(
    '/operator/organizations/:slug/invoices',
    { config, onRequest: onRequestOfPath, schema: { hide: true, body: invoiceBody } },
    async (request, reply) => {
      const { amount_cents: amountCents, status } = request.body;
      return createForOrganizationOfPath(request, reply, async (transaction, actor) => {
        const id = await addInvoice(transaction, actor, { amountCents, status });
        return { invoice: { id, amount_cents: amountCents, status, created_at: timestamp(actor.at) } };
      });
    },
  );

  // For an org's first owner, or a new one when no owner can sign in.
  server.post(
    '/operator/organizations/:slug/invitations',
    { config, onRequest: onRequestOfPath, schema: { hide: true, body: invitationBody } },
    async (request, reply) => {
      const { role = 'owner', email } = request.body;
      return createForOrganizationOfPath(request, reply, async (transaction, actor) => {
        const { invitation, token } = await invite(transaction, actor, { email, role, highestRole: 'owner' });
        const { id, expiresAt } = invitation;
        return { invitation: { id, email: invitation.email ?? null, role: invitation.role, expires_at: timestamp(expiresAt) }, token };
      });
    },
  );

  server.post('/operator/signing_keys/rotate', { config, onRequest, schema: { hide: true } }, async (request, reply) => {
    const { signingKeys } = context;
    const answer = await db
      .transaction()
      .execute((transaction) =>
        makeOnce(context, transaction, noOrganization, request, reply, async () => ({ kid: await signingKeys.rotate(transaction) })),
      );
    await signingKeys.read();
    return answer;
  });

  async function organizationOfPath(request: FastifyRequest): Promise<Organization> {
    return orNotFound(await context.directory.organizationBySlug(pathParameter(request, 'slug')));
  }

  async function changeOrganizationOfPath<Result>(request: FastifyRequest, work: Work<Result>): Promise<Result> {
    const { id: orgId } = await organizationOfPath(request);
    const actor = { ...requestActor(context, request), orgId };
    return context.directory.change(orgId, (transaction) => work(transaction, actor));
  }

  async function createForOrganizationOfPath(request: FastifyRequest, reply: FastifyReply, work: Work<object>): Promise<object> {
    const answer = await changeOrganizationOfPath(request, (transaction, actor) =>
      makeOnce(context, transaction, actor.orgId, request, reply, () => work(transaction, actor)),
    );
    return reply.code(201).send(answer);
  }
}

function showOrganization(settings: OrganizationSettings) {
  return {
    id: settings.id,
    slug: settings.slug,
    name: settings.name,
    status: settings.status,
    subscription: settings.subscription ?? null,
    credits_micros: settings.creditsMicros,
    total_tokens_cap: settings.totalTokensCap,
    tokens_used: settings.tokensUsed,
    spent_micros: settings.spentMicros,
    created_at: timestamp(settings.createdAt),
  };
}
