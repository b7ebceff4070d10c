import { type ApiKey, assertGrantable, createApiKey, keyManagesOwners, listApiKeys, revokeApiKey } from '../../accounts/api-keys.ts';
import { timestamp, timestampOrNull } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { ServiceError } from '../../errors.ts';
import { principalOf, requireKey, scopesOf } from '../shared/caller/authenticate.ts';
import { changeOnce, remove } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { pathNumber } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { decodeIntegerCursor, limitOf, listOf, pageQuery, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { managesOwners } from './roles.ts';

const tags = ['API keys'];
const config = { family: 'management' as const };
const timeOrNull = Type.Union([Type.String(), Type.Null()]);

const apiKeyObject = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    prefix: Type.String({ description: 'The beginning of the key, which identifies it in audit events.' }),
    scopes: Type.Array(Type.String()),
    created_at: Type.String(),
    last_used_at: timeOrNull,
    revoked_at: timeOrNull,
  },
  { title: 'ApiKey' },
);

const createBody = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 200 }),
    scopes: Type.Array(Type.String(), { maxItems: 100, description: 'Only scopes that the calling key has.' }),
  },
  { title: 'CreateApiKey', additionalProperties: false, examples: [{ name: 'Backend', scopes: ['sessions:read', 'session_tokens:mint'] }] },
);

export function apiKeyRoutes(server: Server, context: Context): void {
  server.get(
    '/api/api_keys',
    {
      config,
      onRequest: [requireKey(context, 'api_keys:read')],
      schema: { tags, summary: 'List API keys', querystring: Type.Object(pageQuery), response: answered(200, listOf(apiKeyObject)) },
    },
    async (request) => {
      const before = decodeIntegerCursor('api_keys', request.query.cursor);
      const { id: orgId } = principalOf(request).organization;
      return readPage(
        'api_keys',
        limitOf(request.query),
        (limit) => listApiKeys(context.database.db, orgId, { limit, before }),
        (key) => key.id,
        showApiKey,
      );
    },
  );

  server.post(
    '/api/api_keys',
    {
      config,
      onRequest: [requireKey(context, 'api_keys:write')],
      schema: {
        tags,
        summary: 'Create an API key',
        description: 'The secret is shown only once. An unknown scope is 422; a scope that the caller lacks is 403.',
        body: createBody,
        response: answered(201, Type.Object({ api_key: apiKeyObject, secret: Type.String() })),
      },
    },
    async (request, reply) => {
      // Checked for every request: a repetition under an Idempotency-Key may come from someone else, and its answer contains the secret.
      const principal = principalOf(request);
      assertGrantable(request.body.scopes, scopesOf(principal));
      const answer = await changeOnce(context, request, reply, 201, async (transaction, actor) => {
        const { apiKey, secret } = await createApiKey(transaction, actor, { ...request.body, managesOwners: managesOwners(principal) });
        return { api_key: showApiKey(apiKey), secret };
      });
      // Only in a repetition of an owner's request: the key that this created can do more than the caller.
      if (!managesOwners(principal) && (await keyManagesOwners(context.database.db, principal.organization.id, answer.api_key.id)))
        throw new ServiceError('forbidden', 'This key was created by an owner');
      return answer;
    },
  );

  server.delete(
    '/api/api_keys/:id',
    {
      config,
      onRequest: [requireKey(context, 'api_keys:write')],
      schema: { tags, summary: 'Revoke an API key', response: answered(204, Type.Null()) },
    },
    async (request, reply) => {
      const id = pathNumber(request, 'id');
      return remove(context, request, reply, (transaction, actor) => revokeApiKey(transaction, actor, id));
    },
  );
}

function showApiKey(key: ApiKey) {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    scopes: key.scopes,
    created_at: timestamp(key.createdAt),
    last_used_at: timestampOrNull(key.lastUsedAt),
    revoked_at: timestampOrNull(key.revokedAt),
  };
}
