import { recordAudit } from '../../audit/record.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { ServiceError } from '../../errors.ts';
import { assertMetadata, endUserOf } from '../../session/metadata.ts';
import { checkBudget, payerOfNew } from '../../turn/budget.ts';
import { principalOf } from '../shared/caller/authenticate.ts';
import { identityOfToken } from '../shared/caller/identity.ts';
import { refuseMembersWhileClosed } from '../shared/caller/support-access.ts';
import { recordOnce } from '../shared/change.ts';
import type { WireError } from '../shared/errors.ts';
import type { Server } from '../shared/fastify.ts';
import { agentOf } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { Type } from '../shared/schemas/type.ts';
import { requireAgentOfPath } from './path.ts';

const mintBody = Type.Object(
  {
    end_user_id: Type.Optional(
      Type.String({ minLength: 1, maxLength: 256, description: 'The verified end user; without it the token is anonymous.' }),
    ),
    ttl_seconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 7_200, default: 900 })),
    agent_instance_id: Type.Optional(Type.String({ minLength: 1, maxLength: 256, description: 'The durable instance to use.' })),
    metadata: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'Added to every session that the token creates; at most 2 KiB.' }),
    ),
    may_approve: Type.Optional(
      Type.Boolean({ default: true, description: 'false: the end user cannot answer approvals; your backend or a member does.' }),
    ),
  },
  { title: 'MintSessionToken', additionalProperties: false, examples: [{ end_user_id: 'user_42', ttl_seconds: 900 }] },
);

const minted = Type.Object({ token: Type.String(), expires_at: Type.String() }, { title: 'SessionToken' });
const maxMetadataBytes = 2_048;

const errorCodes: Record<number, string> = {
  400: 'bad_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  409: 'conflict',
  413: 'too_large',
  415: 'unsupported_media_type',
  422: 'invalid',
  429: 'rate_limited',
  503: 'unavailable',
};

/** The errors of this route, and of no other, are flat: `{error, message, ...}` without `detail`. */
function flatError({ status, detail }: WireError): unknown {
  return typeof detail === 'string' ? { error: errorCodes[status] ?? 'internal', message: detail } : detail;
}

const flatAnswers = Object.fromEntries(
  Object.entries(answered(200, minted)).map(([status, schema]) => [
    status,
    status === '200'
      ? schema
      : Type.Object(
          { error: Type.String(), message: Type.String(), reason: Type.Optional(Type.String()) },
          { title: 'FlatError', description: String(Reflect.get(schema, 'description')) },
        ),
  ]),
);

export function sessionTokenRoutes(server: Server, context: Context): void {
  server.post(
    '/api/agents/:slug/session_tokens',
    {
      config: { family: 'management', errorBody: flatError },
      // With a token, a member would read what its end user reads.
      onRequest: [...requireAgentOfPath(context, 'session_tokens:mint'), refuseMembersWhileClosed],
      schema: {
        tags: ['Session tokens'],
        summary: 'Mint a session token',
        description: "A short-lived token for an end user's browser. Errors of this route are flat, without `detail`.",
        body: Type.Union([mintBody, Type.Null()]),
        response: flatAnswers,
      },
    },
    async (request, reply) => {
      const { end_user_id: endUserId, ttl_seconds: ttlSeconds = 900, metadata } = request.body ?? {};
      const { agent_instance_id: agentInstanceId, may_approve: mayApprove } = request.body ?? {};
      if (metadata !== undefined) checkMetadata(metadata, endUserId);
      const agent = agentOf(request);
      const payer = await payerOfNew(context.directory, agent, identityOfToken({ endUserId, agentInstanceId, metadata: metadata ?? {} }));
      const needsCredits = await context.settings.needsCredits(agent);
      const { organization } = principalOf(request);
      const token = await context.tokens.mint(organization, agent, { ttlSeconds, endUserId, agentInstanceId, metadata, mayApprove });
      const answer = { token: token.token, expires_at: timestamp(token.expiresAt) };
      // Usually nothing is written, so no transaction is needed.
      if (!context.config.PARLEY_AUDIT_TOKENS && request.headers['idempotency-key'] === undefined) {
        await checkBudget(context.database.db, payer, needsCredits);
        return answer;
      }
      return recordOnce(context, request, reply, async (transaction, actor) => {
        // Inside `recordOnce`, so that a repeated request gets the first answer even if the budget is exhausted by now.
        await checkBudget(transaction, payer, needsCredits);
        if (context.config.PARLEY_AUDIT_TOKENS) {
          await recordAudit(transaction, actor, {
            action: 'session_token.minted',
            subjectType: 'agent',
            subjectId: agent.id,
            metadata: { agent: agent.slug, token_id: token.tokenId, end_user_id: endUserId ?? null, ttl_seconds: ttlSeconds },
          });
        }
        return answer;
      });
    },
  );

  server.get(
    '/.well-known/jwks.json',
    {
      schema: {
        tags: ['Session tokens'],
        summary: 'Public keys of session tokens',
        security: [],
        response: { 200: Type.Object({ keys: Type.Array(Type.Record(Type.String(), Type.Unknown())) }, { title: 'JsonWebKeySet' }) },
      },
    },
    async (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300');
      return context.signingKeys.jwks();
    },
  );
}

/** Refused now, while the customer's backend can correct it: a browser could open no session with such a token. */
function checkMetadata(metadata: Record<string, unknown>, endUserId: string | undefined): void {
  if (Buffer.byteLength(JSON.stringify(metadata)) > maxMetadataBytes)
    throw new ServiceError('invalid', `metadata: must be at most ${maxMetadataBytes} bytes of JSON`);
  assertMetadata(metadata, 'invalid');
  const named = endUserOf(metadata);
  if (endUserId !== undefined && named !== undefined && named !== endUserId)
    throw new ServiceError('invalid', 'metadata: names a different end user than end_user_id');
}
