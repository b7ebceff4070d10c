import {
  deleteCredential,
  findCredential,
  isCredentialName,
  listCredentials,
  type ModelCredential,
  storeCredential,
} from '../../accounts/model-credentials.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { notFound, orNotFound, ServiceError } from '../../errors.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { change, remove } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { pathParameter } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { secretField } from '../shared/schemas/fields.ts';
import { decodeTextCursor, limitOf, listOf, pageQuery, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';

const tags = ['Model credentials'];
const config = { family: 'management' as const };

const credentialObject = Type.Object(
  {
    provider: Type.String({ description: "A provider, or the name that an MCP server's `credential` refers to." }),
    last_four: Type.String({ description: 'The last four characters; empty if the key is shorter than 12.' }),
    updated_at: Type.String(),
  },
  { title: 'ModelCredential' },
);

const storeBody = Type.Object(
  {
    api_key: secretField,
  },
  { title: 'StoreModelCredential', additionalProperties: false, examples: [{ api_key: 'sk-...' }] },
);

const answer = Type.Object({ model_credential: credentialObject });

export function modelCredentialRoutes(server: Server, context: Context): void {
  const guard = requireKey(context, 'model_credentials:write');

  server.get(
    '/api/model_credentials',
    {
      config,
      onRequest: [guard],
      schema: {
        tags,
        summary: 'List model credentials',
        querystring: Type.Object(pageQuery),
        response: answered(200, listOf(credentialObject)),
      },
    },
    async (request) => {
      const after = decodeTextCursor('model_credentials', request.query.cursor);
      return readPage(
        'model_credentials',
        limitOf(request.query),
        (limit) => listCredentials(context.database.db, principalOf(request).organization.id, { limit, after }),
        (credential) => credential.name,
        showCredential,
      );
    },
  );

  server.get(
    '/api/model_credentials/:provider',
    { config, onRequest: [guard], schema: { tags, summary: 'Fetch a model credential', response: answered(200, answer) } },
    async (request) => {
      const { id: orgId } = principalOf(request).organization;
      const credential = orNotFound(await findCredential(context.database.db, orgId, pathParameter(request, 'provider')));
      return { model_credential: showCredential(credential) };
    },
  );

  server.put(
    '/api/model_credentials/:provider',
    {
      config,
      onRequest: [guard],
      schema: {
        tags,
        summary: 'Store a model credential',
        description: 'Stored encrypted and never shown again.',
        body: storeBody,
        response: answered(200, answer),
      },
    },
    async (request) => {
      const name = pathParameter(request, 'provider');
      if (!isCredentialName(name))
        throw new ServiceError('invalid', 'provider: must be 1 to 64 of A-Z a-z 0-9 _ - and start with a letter or digit');
      const credential = await change(context, request, (transaction, actor) =>
        storeCredential(transaction, actor, context.secrets, { name, secret: request.body.api_key }),
      );
      return { model_credential: showCredential(credential) };
    },
  );

  server.delete(
    '/api/model_credentials/:provider',
    { config, onRequest: [guard], schema: { tags, summary: 'Delete a model credential', response: answered(204, Type.Null()) } },
    async (request, reply) => {
      const name = pathParameter(request, 'provider');
      if (!isCredentialName(name)) throw notFound();
      return remove(context, request, reply, (transaction, actor) => deleteCredential(transaction, actor, name));
    },
  );
}

function showCredential(credential: ModelCredential) {
  return { provider: credential.name, last_four: credential.lastFour, updated_at: timestamp(credential.updatedAt) };
}
