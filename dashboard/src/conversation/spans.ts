import type { LogEvent } from './log-event.ts';

export interface Span {
  seq: number;
  label: string;
  kind: 'turn' | 'model' | 'tool' | 'wait';
  start: number;
  end: number;
  failed: boolean;
  /** It has not ended yet: how long it took nobody knows. */
  open: boolean;
  at: string;
  /** The turn it belongs to: what its bar is drawn against. */
  from: number;
  to: number;
}

type Message = Extract<LogEvent, { type: 'user.message' }>;

/** Where the time of each turn went: the turn, then what it did, in the order of the log. */
export function spansOf(events: readonly LogEvent[]): Span[] {
  const spans: Span[] = [];
  let asked: Message | undefined;
  let turn: Span | undefined;
  let children: Span[] = [];
  const tools = new Map<string, Span>();
  let wait: Span | undefined;
  let mark = 0;
  const add = (event: LogEvent, kind: Span['kind'], label: string, start: number, end: number): Span => {
    const open = kind !== 'model';
    const span: Span = { seq: event.seq, label, kind, start, end, failed: false, open, at: event.created_at, from: 0, to: 0 };
    children.push(span);
    return span;
  };
  const close = () => {
    if (turn === undefined) return;
    for (const span of [turn, ...children]) Object.assign(span, { from: turn.start, to: turn.end });
    spans.push(turn, ...children);
    turn = undefined;
    children = [];
  };
  for (const event of events) {
    const at = Date.parse(event.created_at);
    if (event.type === 'user.message') {
      asked = event;
      continue;
    }
    // What another participant says is a message too; only one that a turn begins with is what the turn was asked.
    if (event.type === 'session.status_running' && event.turn_id === asked?.turn_id) {
      close();
      turn = turnSpan(asked);
      asked = undefined;
      mark = at;
      continue;
    }
    if (turn === undefined) continue;
    turn.end = at;
    if (event.type === 'agent.message' || event.type === 'agent.thinking')
      add(event, 'model', event.type === 'agent.message' ? 'Message' : 'Thinking', mark, at);
    else if (event.type === 'agent.tool_use') {
      if (at > mark) add(event, 'model', 'Decides', mark, at);
      tools.set(event.tool_use_id, add(event, 'tool', event.tool, at, at));
    } else if (event.type === 'agent.tool_result') {
      const span = tools.get(event.tool_use_id);
      if (span !== undefined) Object.assign(span, { end: at, open: false, failed: event.is_error });
    } else if (event.type === 'session.status_idle' && event.stop_reason === 'requires_action')
      wait = add(event, 'wait', 'Approval', at, at);
    else if (event.type === 'user.tool_confirmation' && wait !== undefined) {
      Object.assign(wait, { end: at, open: false });
      const span = tools.get(event.tool_use_id);
      if (span !== undefined) span.start = at;
    } else if (event.type === 'session.status_idle' || event.type === 'session.error') {
      turn.failed = event.type === 'session.error';
      for (const span of [turn, ...children]) span.open = false;
    }
    mark = at;
  }
  close();
  return spans;
}

function turnSpan({ seq, text, created_at: at }: Message): Span {
  const label = text.split('\n')[0] || 'Turn';
  const start = Date.parse(at);
  return { seq, label, kind: 'turn', start, end: start, failed: false, open: true, at, from: 0, to: 0 };
}
