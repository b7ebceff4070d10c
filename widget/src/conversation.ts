import type { Decision, ManagedEvent, PendingInput } from '../../client/src/index.ts';

/** One entry of the conversation as it is shown. */
export type Item =
  | { kind: 'user'; id: string; text: string; files: string[] }
  | { kind: 'agent'; id: string; text: string }
  | { kind: 'tool'; id: string; tool: string; input: unknown; output: string | undefined; failed: boolean }
  | { kind: 'approval'; id: string; question: PendingInput; input: unknown; decision: Decision | 'withdrawn' | undefined }
  | { kind: 'stopped'; id: string }
  | { kind: 'failure'; id: string; text: string };

export interface Conversation {
  items: Item[];
  /** The agent's message that is being written. */
  draft: { id: string; text: string } | undefined;
  running: boolean;
  lastSeq: number;
}

export function emptyConversation(): Conversation {
  return { items: [], draft: undefined, running: false, lastSeq: 0 };
}

/** Applies one event: an entry of the log, or the next words of the draft. Live and replayed events give the same result. */
export function addEvent(conversation: Conversation, event: ManagedEvent): void {
  const { items } = conversation;
  if (event.type === 'agent.message_delta') {
    const { draft } = conversation;
    const before = draft?.id === event.message_id ? draft.text : '';
    conversation.draft = { id: event.message_id, text: before + event.text };
    return;
  }
  conversation.lastSeq = event.seq;
  switch (event.type) {
    case 'user.message':
      items.push({ kind: 'user', id: event.message_id, text: event.text, files: event.files ?? [] });
      break;
    case 'session.status_running':
      conversation.running = true;
      break;
    case 'agent.message':
      conversation.draft = undefined;
      // Empty when the agent had nothing to add after its last tool call.
      if (event.text !== '') items.push({ kind: 'agent', id: event.message_id, text: event.text });
      break;
    case 'agent.tool_use':
      // A finished message would have been logged before the call, so this draft was cut off and will not be completed.
      conversation.draft = undefined;
      items.push({ kind: 'tool', id: event.tool_use_id, tool: event.tool, input: event.input, output: undefined, failed: false });
      break;
    case 'agent.tool_result': {
      const call = callOf(items, event.tool_use_id);
      if (call !== undefined) Object.assign(call, { output: event.output, failed: event.is_error });
      break;
    }
    case 'user.tool_confirmation': {
      const asked = items.findLast((item) => item.kind === 'approval' && item.id === event.request_id);
      if (asked?.kind === 'approval') asked.decision = event.result;
      break;
    }
    case 'session.status_idle':
      conversation.running = false;
      conversation.draft = undefined;
      if (event.stop_reason === 'requires_action')
        items.push({
          kind: 'approval',
          id: event.pending_input.request_id,
          question: event.pending_input,
          input: callOf(items, event.tool_use_id)?.input,
          decision: undefined,
        });
      else if (event.stop_reason === 'interrupted') items.push({ kind: 'stopped', id: `${event.seq}` });
      break;
    case 'session.error':
      conversation.running = false;
      conversation.draft = undefined;
      items.push({ kind: 'failure', id: `${event.seq}`, text: event.message });
      break;
    case 'user.interrupt':
      // Nobody can answer a question whose turn was stopped.
      for (const item of items) if (item.kind === 'approval') item.decision ??= 'withdrawn';
      break;
    case 'agent.thinking':
    case 'session.context_condensed':
      break;
  }
}

/** The question that waits for an answer, if one does. */
export function openQuestion(conversation: Conversation): PendingInput | undefined {
  const last = conversation.items.findLast((item) => item.kind === 'approval');
  return last?.decision === undefined ? last?.question : undefined;
}

/** Searches from the end: a result follows soon after its call, and a conversation can have thousands of calls. */
function callOf(items: Item[], toolUseId: string): Extract<Item, { kind: 'tool' }> | undefined {
  const call = items.findLast((item) => item.kind === 'tool' && item.id === toolUseId);
  return call?.kind === 'tool' ? call : undefined;
}
