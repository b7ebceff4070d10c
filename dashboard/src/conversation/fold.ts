import { type LogEvent, listOf, numberOf, textOf } from './log-event.ts';

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
  options: string[];
  input: unknown;
  at: string;
}

export interface Conversation {
  items: Item[];
  running: boolean;
  pending: PendingApproval | undefined;
}

const decisions: Record<string, string> = {
  approve_once: 'Approved once',
  allow: 'Approved once',
  approve_session: 'Approved for the session',
  deny: 'Denied',
};

/** What the log amounts to: who said what, which tools ran, and what waits for an answer. */
export function foldConversation(events: readonly LogEvent[]): Conversation {
  const items: Item[] = [];
  const tools = new Map<string, ToolItem>();
  let running = false;
  let pending: PendingApproval | undefined;
  let startedAt = '';
  for (const event of events) {
    const { seq, created_at: at } = event;
    switch (event.type) {
      case 'user.message':
        items.push({
          kind: 'user',
          seq,
          at,
          text: textOf(event, 'text'),
          files: listOf(event, 'files'),
          name: textOf(event, 'participant_name'),
        });
        startedAt = at;
        break;
      case 'session.status_running':
        running = true;
        break;
      case 'agent.message':
        if (textOf(event, 'text') !== '') items.push({ kind: 'agent', seq, at, text: textOf(event, 'text') });
        break;
      case 'agent.thinking':
        items.push({ kind: 'thinking', seq, at, text: textOf(event, 'text') });
        break;
      case 'agent.tool_use': {
        const id = textOf(event, 'tool_use_id');
        const item: ToolItem = {
          kind: 'tool',
          seq,
          at,
          id,
          tool: textOf(event, 'tool'),
          input: event.input,
          output: undefined,
          isError: false,
          finishedAt: undefined,
        };
        tools.set(id, item);
        items.push(item);
        break;
      }
      case 'agent.tool_result': {
        const item = tools.get(textOf(event, 'tool_use_id'));
        if (item === undefined) break;
        item.output = typeof event.output === 'string' ? event.output : JSON.stringify(event.output);
        item.isError = event.is_error === true;
        item.finishedAt = at;
        break;
      }
      case 'user.tool_confirmation':
        pending = undefined;
        running = true;
        items.push({ kind: 'note', seq, at, text: decisions[textOf(event, 'result')] ?? 'Answered' });
        break;
      case 'user.interrupt':
        items.push({ kind: 'note', seq, at, text: 'Stop requested' });
        break;
      case 'session.status_idle': {
        running = false;
        const reason = textOf(event, 'stop_reason');
        pending = reason === 'requires_action' ? pendingOf(event, tools) : undefined;
        if (reason !== 'requires_action')
          items.push({
            kind: 'end',
            seq,
            at,
            reason: event.denied === true && reason === 'end_turn' ? 'denied' : reason,
            tokens: numberOf(event.usage, 'total_tokens'),
            milliseconds: startedAt === '' ? 0 : Date.parse(at) - Date.parse(startedAt),
          });
        break;
      }
      case 'session.error':
        running = false;
        pending = undefined;
        items.push({ kind: 'error', seq, at, code: textOf(event, 'code'), message: textOf(event, 'message') });
        break;
    }
  }
  return { items, running, pending };
}

/** The pause names its tool; the arguments are those of the call that has no result yet. */
function pendingOf(event: LogEvent, tools: ReadonlyMap<string, ToolItem>): PendingApproval {
  const asked: object = typeof event.pending_input === 'object' && event.pending_input !== null ? event.pending_input : {};
  const field = (name: string): unknown => Reflect.get(asked, name);
  const tool = String(field('tool') ?? '');
  const options = field('options');
  const open =
    tools.get(textOf(event, 'tool_use_id')) ?? [...tools.values()].findLast((item) => item.output === undefined && item.tool === tool);
  return {
    requestId: textOf(event, 'request_id') || String(field('request_id') ?? ''),
    tool,
    message: String(field('message') ?? ''),
    options: Array.isArray(options) ? options.map(String) : ['approve_once', 'approve_session', 'deny'],
    input: open?.input,
    at: event.created_at,
  };
}
