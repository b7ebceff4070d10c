import { changeOrganization } from '../../accounts/organization-changes.ts';
import { type OrganizationSettings, readOrganizationSettings } from '../../accounts/organization-settings.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { ServiceError } from '../../errors.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { change } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { answered } from '../shared/schemas/answers.ts';
import { Type } from '../shared/schemas/type.ts';

const tags = ['Organization'];
const config = { family: 'management' as const };

const organizationObject = Type.Object(
  {
    id: Type.Integer(),
    slug: Type.String(),
    name: Type.String(),
    status: Type.Enum(['active', 'suspended']),
    default_agent: Type.Union([Type.String(), Type.Null()], { description: 'Slug of the agent that the flat routes use.' }),
    support_access: Type.Object({ transcripts: Type.Boolean() }),
    alert_thresholds: Type.Array(Type.Integer(), { description: 'Percentages of a budget at which a webhook event is sent.' }),
    subscription: Type.Union([Type.Object({ plan: Type.String(), status: Type.String() }), Type.Null()]),
    created_at: Type.String(),
    updated_at: Type.String(),
  },
  { title: 'Organization' },
);

const updateBody = Type.Object(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    support_access: Type.Optional(Type.Object({ transcripts: Type.Boolean() }, { additionalProperties: false })),
    default_agent: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    alert_thresholds: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 1_000 }), { maxItems: 20 })),
  },
  { title: 'UpdateOrganization', additionalProperties: false, examples: [{ support_access: { transcripts: false } }] },
);

const answer = Type.Object({ organization: organizationObject });

export function organizationRoutes(server: Server, context: Context): void {
  server.get(
    '/api/organization',
    {
      config,
      onRequest: [requireKey(context, 'organization:read')],
      schema: { tags, summary: 'Fetch the organization', response: answered(200, answer) },
    },
    async (request) => {
      const settings = await readOrganizationSettings(context.database.db, principalOf(request).organization.id);
      return { organization: showOrganization(settings) };
    },
  );

  server.patch(
    '/api/organization',
    {
      config,
      onRequest: [requireKey(context, 'organization:write')],
      schema: { tags, summary: 'Change the organization', body: updateBody, response: answered(200, answer) },
    },
    async (request) => {
      const { name, support_access: access, default_agent: defaultAgent, alert_thresholds: thresholds } = request.body;
      // Not by `uniqueItems` in the schema, which compares all pairs before the number of items is known to be small.
      if (new Set(thresholds).size < (thresholds?.length ?? 0))
        throw new ServiceError('invalid', 'alert_thresholds: must not have duplicate items');
      const alertThresholds = thresholds?.toSorted((left, right) => left - right);
      const changes = { name, transcriptsAccess: access?.transcripts, defaultAgent, alertThresholds };
      const settings = await change(context, request, async (transaction, actor) => {
        await changeOrganization(transaction, actor, changes);
        return readOrganizationSettings(transaction, actor.orgId);
      });
      return { organization: showOrganization(settings) };
    },
  );
}

function showOrganization(settings: OrganizationSettings) {
  return {
    id: settings.id,
    slug: settings.slug,
    name: settings.name,
    status: settings.status,
    default_agent: settings.defaultAgent ?? null,
    support_access: { transcripts: settings.transcriptsAccess },
    alert_thresholds: settings.alertThresholds,
    subscription: settings.subscription ?? null,
    created_at: timestamp(settings.createdAt),
    updated_at: timestamp(settings.updatedAt),
  };
}
