import type { Decision } from '../../../client/src/index.ts';
import type { LogEvent } from './log-event.ts';

export type Item =
  | { kind: 'user'; seq: number; at: string; text: string; files: string[]; name: string }
  | { kind: 'agent'; seq: number; at: string; text: string }
  | { kind: 'thinking'; seq: number; at: string; text: string }
  | ToolItem
  | { kind: 'end'; seq: number; at: string; reason: string; tokens: number; milliseconds: number }
  | { kind: 'error'; seq: number; at: string; code: string; message: string }
  | { kind: 'note'; seq: number; at: string; text: string };

export interface ToolItem {
  kind: 'tool';
  seq: number;
  at: string;
  id: string;
  tool: string;
  input: unknown;
  output: string | undefined;
  isError: boolean;
  finishedAt: string | undefined;
}

export interface PendingApproval {
  requestId: string;
  tool: string;
  message: string;
  options: readonly string[];
  input: unknown;
}

export interface Conversation {
  items: Item[];
  running: boolean;
  pending: PendingApproval | undefined;
}

const decisions: Record<Decision, string> = {
  approve_once: 'Approved once',
  approve_session: 'Approved for the session',
  deny: 'Denied',
};

/** Derives the conversation from the log: who said what, which tools ran, and which approval is pending. */
export function foldConversation(events: readonly LogEvent[]): Conversation {
  const items: Item[] = [];
  const tools = new Map<string, ToolItem>();
  let running = false;
  let pending: PendingApproval | undefined;
  let startedAt = '';
  let turnId = '';
  for (const event of events) {
    const { seq, created_at: at } = event;
    switch (event.type) {
      case 'user.message':
        items.push({ kind: 'user', seq, at, text: event.text, files: event.files ?? [], name: event.participant_name ?? '' });
        break;
      case 'session.status_running':
        running = true;
        // The same turn runs again after an approval: its time is counted from its first start.
        if (event.turn_id !== turnId) startedAt = at;
        turnId = event.turn_id;
        break;
      case 'agent.message':
        if (event.text !== '') items.push({ kind: 'agent', seq, at, text: event.text });
        break;
      case 'agent.thinking':
        items.push({ kind: 'thinking', seq, at, text: event.text });
        break;
      case 'agent.tool_use': {
        const { tool_use_id: id, tool, input } = event;
        const item: ToolItem = { kind: 'tool', seq, at, id, tool, input, output: undefined, isError: false, finishedAt: undefined };
        tools.set(id, item);
        items.push(item);
        break;
      }
      case 'agent.tool_result': {
        const item = tools.get(event.tool_use_id);
        if (item !== undefined) Object.assign(item, { output: event.output, isError: event.is_error, finishedAt: at });
        break;
      }
      case 'user.tool_confirmation':
        pending = undefined;
        running = true;
        items.push({ kind: 'note', seq, at, text: decisions[event.result] });
        break;
      case 'user.interrupt':
        items.push({ kind: 'note', seq, at, text: 'Stop requested' });
        break;
      case 'session.status_idle':
        running = false;
        pending = undefined;
        if (event.stop_reason === 'requires_action') {
          const { request_id: requestId, tool, message, options } = event.pending_input;
          pending = { requestId, tool, message, options, input: tools.get(event.tool_use_id)?.input };
        } else {
          items.push({
            kind: 'end',
            seq,
            at,
            reason: event.denied && event.stop_reason === 'end_turn' ? 'denied' : event.stop_reason,
            tokens: event.usage.total_tokens,
            milliseconds: startedAt === '' ? 0 : Date.parse(at) - Date.parse(startedAt),
          });
        }
        break;
      case 'session.error':
        running = false;
        pending = undefined;
        items.push({ kind: 'error', seq, at, code: event.code, message: event.message });
        break;
    }
  }
  return { items, running, pending };
}
