import type { LogEvent } from './log-event.ts';

/** One row of the timeline. Times are in milliseconds. */
export interface Span {
  seq: number;
  label: string;
  kind: 'turn' | 'model' | 'tool' | 'wait';
  start: number;
  end: number;
  failed: boolean;
  /** Whether it has not ended yet. */
  open: boolean;
  at: string;
  /** Start and end of its turn, which are the ends of the axis that its bar is drawn on. */
  turnStart: number;
  turnEnd: number;
}

type Message = Extract<LogEvent, { type: 'user.message' }>;

/** For each turn its own span, followed by the spans of what it did, in the order of the log. */
export function spansOf(events: readonly LogEvent[]): Span[] {
  const spans: Span[] = [];
  let message: Message | undefined;
  let turn: Span | undefined;
  let children: Span[] = [];
  const tools = new Map<string, Span>();
  let wait: Span | undefined;
  /** Time of the previous event: the model's work up to an event is counted from here. */
  let previousAt = 0;
  const add = (event: LogEvent, kind: Span['kind'], label: string, start: number, end: number): Span => {
    const open = kind !== 'model';
    const span: Span = { seq: event.seq, label, kind, start, end, failed: false, open, at: event.created_at, turnStart: 0, turnEnd: 0 };
    children.push(span);
    return span;
  };
  const closeTurn = () => {
    if (turn === undefined) return;
    for (const span of [turn, ...children]) Object.assign(span, { turnStart: turn.start, turnEnd: turn.end });
    spans.push(turn, ...children);
    turn = undefined;
    children = [];
  };
  for (const event of events) {
    const at = Date.parse(event.created_at);
    if (event.type === 'user.message') {
      message = event;
      continue;
    }
    // Not every message starts a turn, since other participants write too. The one that did has the turn's id.
    if (event.type === 'session.status_running' && event.turn_id === message?.turn_id) {
      closeTurn();
      turn = turnSpan(message);
      message = undefined;
      previousAt = at;
      continue;
    }
    if (turn === undefined) continue;
    turn.end = at;
    if (event.type === 'agent.message' || event.type === 'agent.thinking')
      add(event, 'model', event.type === 'agent.message' ? 'Message' : 'Thinking', previousAt, at);
    else if (event.type === 'agent.tool_use') {
      if (at > previousAt) add(event, 'model', 'Decides', previousAt, at);
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
    previousAt = at;
  }
  closeTurn();
  return spans;
}

function turnSpan({ seq, text, created_at: at }: Message): Span {
  const label = text.split('\n')[0] || 'Turn';
  const start = Date.parse(at);
  return { seq, label, kind: 'turn', start, end: start, failed: false, open: true, at, turnStart: 0, turnEnd: 0 };
}
