import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { ServiceError } from '../../errors.ts';
import { principalOf } from '../shared/caller/authenticate.ts';
import { assertMayApprove } from '../shared/caller/identity.ts';
import { assertMayJoin } from '../shared/caller/support-access.ts';
import { answerOnce } from '../shared/once/answer-once.ts';
import { underKey } from '../shared/once/idempotency.ts';
import { findRetriedTurn, startTurn } from '../shared/once/start-turn.ts';
import type { eventBody } from './schemas.ts';

type Event = Static<typeof eventBody>;

interface SessionIds {
  orgId: number;
  id: string;
}

/** Accepts an event of the user. It is stored when this returns; the turn that it starts or continues runs in the background. */
export async function postEvent(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  session: SessionIds,
  event: Event,
): Promise<void> {
  switch (event.type) {
    case 'user.message':
      return postMessage(context, request, reply, session, event);
    case 'user.tool_confirmation':
      assertMayApprove(principalOf(request));
      return underKey(context, request, reply, () => resolveApproval(context, session, event));
    case 'user.interrupt':
      return postInterrupt(context, request, reply, session);
  }
}

async function postMessage(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  session: SessionIds,
  { text }: Event,
): Promise<void> {
  await assertMayJoin(context, request, session.id);
  if (text === undefined) throw new ServiceError('bad-request', 'text: is required for a user.message');
  const turn =
    (await findRetriedTurn(context, request, false)) ??
    (await startTurn(context, request, reply, session.id, {
      message: { text },
      shows: 'nothing',
      waitsForApproval: true,
    }));
  turn.subscription.close();
  context.warm.begin(session.orgId, session.id);
}

/** Never repeated, even if its outcome is unknown because its process died: by then it could interrupt another turn. */
async function postInterrupt(context: Context, request: FastifyRequest, reply: FastifyReply, { orgId, id }: SessionIds): Promise<void> {
  const mayRepeat = async () => false;
  await answerOnce(context, request, reply, mayRepeat, async () => {
    await context.turns.interrupt(orgId, id, 'interrupt');
    return null;
  });
}

async function resolveApproval(context: Context, session: SessionIds, { request_id: requestId, result }: Event): Promise<void> {
  if (!requestId || result === undefined)
    throw new ServiceError('bad-request', `${requestId ? 'result' : 'request_id'}: is required for a user.tool_confirmation`);
  const decision = result === 'allow' ? 'approve_once' : result;
  const turn = await context.turns.resolve(session.orgId, session.id, { requestId, decision });
  turn.subscription.close();
}
