import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { type ApprovalDecision, isStored } from '../../session/events.ts';
import { CutShort } from '../../turn/collect.ts';
import { watchTurn } from '../../turn/watch.ts';
import { principalOf } from '../shared/caller/authenticate.ts';
import { visibleSession } from '../shared/caller/visible-session.ts';
import { failureBody } from '../shared/errors.ts';
import { pathParameter } from '../shared/path.ts';
import { signalOfLeaving } from '../shared/streams/client-left.ts';
import { sendLongJson } from '../shared/streams/long-json.ts';
import { sessionBodyOf } from './answer.ts';
import { type NativeFrame, NativeProjector } from './project.ts';

/** Answers a pending approval, and responds with the frames of the turn from there to its end or its next approval. */
export async function resolveApproval(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  sessionId: string,
  decision: ApprovalDecision,
): Promise<FastifyReply> {
  const { organization } = principalOf(request);
  const requestId = pathParameter(request, 'request_id');
  const turn = await context.turns.resolve(organization.id, sessionId, { requestId, decision });

  async function continuation() {
    const projector = new NativeProjector();
    const events: NativeFrame[] = [];
    for await (const updates of watchTurn(context.log, turn, signalOfLeaving(reply))) {
      for (const update of updates) {
        const frames = projector.project(update);
        if (isStored(update) && update.seq > turn.resolvedSeq) events.push(...frames);
      }
    }
    if (!projector.ended) throw new CutShort();
    const session = await visibleSession(context, request, sessionId);
    // By now another turn may ask, or somebody may have answered what this one asked again.
    const isOwn = session.pendingInput?.request_id === events.at(-1)?.data.request_id;
    const shown = isOwn ? session : { ...session, pendingInput: null };
    return { events, session: sessionBodyOf(shown, request.agent, organization.slug) };
  }

  return sendLongJson(reply, continuation(), failureBody);
}
