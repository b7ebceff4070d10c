import { timestamp } from '../../clock.ts';
import type { LiveFragment, StoredEvent } from '../../session/events.ts';
import { denialOf, pendingInputOf } from '../../session/pending-input.ts';
import { noUsage, wireUsage } from '../../session/usage.ts';
import type { ClosingReason } from '../shared/streams/open-streams.ts';

/** An entry of the managed log. Every stored event is exactly one entry, so that `seq` has no gaps on the wire either. */
export interface LogEntry {
  seq: number;
  type: string;
  session_id: string;
  created_at: string;
  turn_id: string;
  [field: string]: unknown;
}

export function logEntry(event: StoredEvent, sessionId: string): LogEntry {
  const { type, ...fields } = typeAndFields(event);
  return { seq: event.seq, type, session_id: sessionId, created_at: timestamp(event.createdAt), turn_id: event.turnId, ...fields };
}

function typeAndFields(event: StoredEvent): { type: string; [field: string]: unknown } {
  switch (event.type) {
    case 'message-received': {
      const { messageId, text, files, participantName, participantType } = event.data;
      return {
        type: 'user.message',
        message_id: messageId,
        text,
        ...(files === undefined ? {} : { files }),
        ...(participantName === undefined ? {} : { participant_name: participantName }),
        ...(participantType === undefined ? {} : { participant_type: participantType }),
      };
    }
    case 'turn-started':
    case 'turn-resumed':
      return { type: 'session.status_running', agent: event.data.agent };
    case 'reasoning-produced':
      return { type: 'agent.thinking', text: event.data.text };
    case 'message-produced': {
      const { messageId, text, agent, partial } = event.data;
      return { type: 'agent.message', message_id: messageId, agent, text, ...(partial ? { partial } : {}) };
    }
    case 'tool-called':
      return { type: 'agent.tool_use', tool_use_id: event.data.callId, tool: event.data.tool, input: event.data.input };
    case 'tool-finished': {
      const { callId, tool, output, isError } = event.data;
      return { type: 'agent.tool_result', tool_use_id: callId, tool, output, is_error: isError };
    }
    case 'approval-requested': {
      const { requestId, callId, usage } = event.data;
      return {
        type: 'session.status_idle',
        stop_reason: 'requires_action',
        request_id: requestId,
        tool_use_id: callId,
        pending_input: pendingInputOf(event.data),
        usage: wireUsage(usage ?? noUsage),
      };
    }
    case 'approval-resolved': {
      const { requestId, callId, decision } = event.data;
      return { type: 'user.tool_confirmation', request_id: requestId, tool_use_id: callId, result: decision };
    }
    case 'interrupt-requested':
      return { type: 'user.interrupt' };
    case 'context-condensed':
      return { type: 'session.context_condensed', through_seq: event.data.throughSeq, summary: event.data.summary };
    case 'turn-ended': {
      const { stopReason, usage } = event.data;
      return { type: 'session.status_idle', stop_reason: stopReason, ...denialOf(event.data), usage: wireUsage(usage) };
    }
    case 'turn-failed': {
      const { code, message, provider, usage } = event.data;
      return { type: 'session.error', code, message, ...(provider === undefined ? {} : { provider }), usage: wireUsage(usage) };
    }
  }
}

/** All followers of a session in this process are handed the same event objects, so each frame is made once. */
const frames = new WeakMap<StoredEvent, string>();

export function frameText(event: StoredEvent, sessionId: string): string {
  const known = frames.get(event);
  if (known !== undefined) return known;
  const entry = logEntry(event, sessionId);
  const text = `id: ${entry.seq}\nevent: ${entry.type}\ndata: ${JSON.stringify(entry)}\n\n`;
  frames.set(event, text);
  return text;
}

/** The last frame when the server ends the stream. It has no id, so that a browser's cursor stays at the last entry of the log. */
export function closingFrame(reason: ClosingReason): string {
  const messages: Record<ClosingReason, string> = {
    token_expired: 'The session token has expired. Open the stream again with a new one and the last seq.',
    credential_revoked: 'The credential of this stream is no longer valid.',
    server_shutdown: 'The server is restarting. Open the stream again with the last seq.',
    database_unavailable: 'The database is not reachable at the moment. Open the stream again with the last seq.',
    session_deleted: 'The session no longer exists.',
  };
  return `event: stream.closed\ndata: ${JSON.stringify({ type: 'stream.closed', reason, message: messages[reason] })}\n\n`;
}

/** A preview, without id or seq: those of one message add up to the `agent.message` that follows. Reasoning has no previews. */
export function deltaFrame({ type, messageId, text }: LiveFragment, sessionId: string): string {
  if (type !== 'text-delta') return '';
  const data = { type: 'agent.message_delta', session_id: sessionId, message_id: messageId, text };
  return `event: agent.message_delta\ndata: ${JSON.stringify(data)}\n\n`;
}
