import { recordAudit } from '../../audit/record.ts';
import type { Context } from '../../context.ts';
import { providers } from '../../release-config.ts';
import { tryModel } from '../../turn/try-model.ts';
import { actorOf } from '../shared/caller/actor.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import type { Server } from '../shared/fastify.ts';
import { Type } from '../shared/schemas/type.ts';
import { signalOfLeaving } from '../shared/streams/client-left.ts';

const body = Type.Object(
  {
    provider: Type.Enum([...providers]),
    name: Type.String({ minLength: 1, maxLength: 200 }),
    base_url: Type.Optional(Type.Union([Type.String({ maxLength: 2_048 }), Type.Null()])),
  },
  { additionalProperties: false },
);

/**
 * Makes a small model call, for the test button beside a stored credential. The caller chooses where the credential is sent, as the
 * author of a release does, and so needs that scope too; and as a release does, the trial leaves an audit event.
 */
export function tryModelRoute(server: Server, context: Context): void {
  const onRequest = [requireKey(context, 'model_credentials:write', 'releases:write')];
  server.post(
    '/dashboard/api/models/test',
    { config: { family: 'management' }, onRequest, schema: { hide: true, body } },
    async (request, reply) => {
      const { provider, name, base_url: baseUrl = null } = request.body;
      const { id: orgId } = principalOf(request).organization;
      const actor = actorOf(context, request);
      // Only the host of the URL, which may contain a secret. Null: that of the provider.
      const metadata = { provider, model: name, host: baseUrl && (URL.parse(baseUrl)?.host ?? '') };
      const entry = { action: 'model_credential.tested', subjectType: 'model_credential', subjectId: provider, metadata } as const;
      if (provider !== 'offline') await context.database.db.transaction().execute((transaction) => recordAudit(transaction, actor, entry));
      // The model may take long to answer: others need not wait for this request.
      request.place?.leave();
      return tryModel(context.settings, orgId, { provider, name, base_url: baseUrl, settings: {} }, signalOfLeaving(reply));
    },
  );
}
