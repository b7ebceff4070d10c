import type { Agent } from '../../accounts/agents.ts';
import { timestamp } from '../../clock.ts';
import { pendingInputOf } from '../../session/pending-input.ts';
import type { Session } from '../../session/sessions.ts';
import { wireUsage } from '../../session/usage.ts';
import type { TurnOutcome } from '../../turn/collect.ts';
import { turnFailure } from '../../turn/failure.ts';

/** The session object. `agent` is only passed, and shown, on routes below an agent. */
export function sessionBodyOf(session: Session, agent: Agent | undefined, org: string) {
  return {
    id: session.id,
    metadata: session.metadata,
    current_agent: session.currentAgent,
    status: session.status,
    created_at: timestamp(session.createdAt),
    updated_at: timestamp(session.updatedAt),
    parent_id: session.parentId,
    pending_input: session.pendingInput,
    permission_mode: session.permissionMode,
    participants: session.participants,
    ...(agent === undefined ? {} : { agent: { ref: `${org}/${agent.slug}`, agent_id: agent.id, version: session.releaseVersion } }),
  };
}

/** The body of a response that is not streamed. Throws the error of a turn that failed. */
export function messageBodyOf(sessionId: string, outcome: TurnOutcome) {
  if (outcome.failed !== undefined) throw turnFailure(outcome.failed);
  const { message, text, agent, usage, pending, ended } = outcome;
  const parts = message?.thinking ? outcome.parts : outcome.parts.filter((part) => part.type !== 'reasoning');
  const files = (message?.files ?? []).map((path) => ({ type: 'file', path }));
  // A turn without text stored no message. Its id is then made from the turn's, so that a repeated request gets the same one. Without
  // the number it would be the user's message, as the input items of responses name it.
  const assistantMessageId = outcome.assistantMessageId ?? `${outcome.turnId.replace('turn_', 'msg_')}_0`;
  return {
    text,
    session_id: sessionId,
    agent,
    messages: [
      ...(message === undefined
        ? []
        : [{ id: message.messageId, role: 'user', text: message.text, parts: [{ type: 'text', text: message.text }, ...files] }]),
      { id: assistantMessageId, role: 'assistant', text, parts },
    ],
    usage: wireUsage(usage),
    ...(pending === undefined ? {} : { pending_input: pendingInputOf(pending) }),
    ...(ended === undefined || ended.stopReason === 'end_turn' ? {} : { stop_reason: ended.stopReason }),
  };
}
