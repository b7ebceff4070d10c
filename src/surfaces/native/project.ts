import type { PendingInput } from '../../database/schema.ts';
import { type ApprovalRequested, isStored, type SessionUpdate, type StoredEvent } from '../../session/events.ts';
import { type Usage, wireUsage } from '../../session/usage.ts';
import { toolState } from '../../turn/collect.ts';
import { closingError } from '../shared/closing-error.ts';
import type { ClosingReason } from '../shared/open-streams.ts';
import { type Fresh, ShownText } from '../shared/shown-text.ts';

/** A frame of the native stream (spec 6.1). */
export interface NativeFrame {
  type: 'text' | 'tool_use' | 'reasoning' | 'step_start' | 'step_finish' | 'input_required' | 'error' | 'done';
  data: Record<string, unknown>;
}

interface OpenCall {
  tool: string;
  input: unknown;
}

/**
 * Turns what a turn adds into native frames. Text that was shown as it came is not shown again when its whole message is
 * stored; what a watcher missed of it comes then, so that the sum is always the message.
 */
export class NativeProjector {
  /** Whether the turn came to rest: nothing follows. */
  ended = false;
  /** Whether the message asked for the reasoning; known once the turn's first event came by. */
  private thinking = false;
  private readonly shownText = new ShownText();
  private readonly shownReasoning = new Map<string, number>();
  private readonly calls = new Map<string, OpenCall>();
  private agent = '';
  private step = 0;
  private stepOpen = false;
  private stepUsage: Usage | undefined;

  project(update: SessionUpdate): NativeFrame[] {
    if (isStored(update)) return this.projectStored(update);
    const { step, messageId, offset } = update;
    if (update.type === 'text-delta') return this.showText(step, this.shownText.addLive(update));
    const frames = this.openStep(step);
    if (!this.thinking) return frames;
    const shown = this.shownReasoning.get(messageId) ?? 0;
    const text = update.text.slice(Math.max(0, shown - offset));
    // Whoever comes to it in the middle gets the text whole, when its message is stored.
    if (offset > shown || text === '') return frames;
    this.shownReasoning.set(messageId, shown + text.length);
    frames.push(part('reasoning', text));
    return frames;
  }

  private projectStored(event: StoredEvent): NativeFrame[] {
    switch (event.type) {
      case 'reasoning-produced': {
        const frames = this.openStep(event.data.step);
        const missing = event.data.text.slice(this.shownReasoning.get(event.data.messageId) ?? 0);
        return this.thinking && missing !== '' ? [...frames, part('reasoning', missing)] : frames;
      }
      case 'message-produced':
        return this.showText(event.data.step, this.shownText.rest(event.data));
      case 'tool-called': {
        const { callId, tool, input, step, stepUsage } = event.data;
        const frames = this.openStep(step);
        this.calls.set(callId, { tool, input });
        this.stepUsage = stepUsage ?? this.stepUsage;
        return [...frames, { type: 'tool_use', data: { part: { type: 'tool_use', id: callId, tool, input, state: 'running' } } }];
      }
      case 'tool-finished': {
        const { callId, tool, output } = event.data;
        const input = this.calls.get(callId)?.input ?? null;
        this.calls.delete(callId);
        this.agent = event.data.handoff ?? this.agent;
        const part = { type: 'tool_use', id: callId, tool, input, state: toolState(event.data), output };
        const frames: NativeFrame[] = [{ type: 'tool_use', data: { part } }];
        return this.calls.size === 0 ? [...frames, ...this.closeStep('tool_calls', this.stepUsage)] : frames;
      }
      case 'approval-requested':
        this.ended = true;
        return [{ type: 'input_required', data: { ...pendingInput(event.data) } }];
      case 'turn-ended': {
        const { stopReason, usage, stepUsage, deniedRequestId } = event.data;
        this.ended = true;
        const denial = deniedRequestId === undefined ? {} : { denied: true, request_id: deniedRequestId };
        const interrupted = stopReason === 'end_turn' ? {} : { stop_reason: stopReason };
        return [
          ...this.closeStep(stopReason === 'end_turn' ? 'stop' : stopReason, stepUsage),
          { type: 'done', data: { usage: wireUsage(usage), ...denial, ...interrupted } },
        ];
      }
      case 'turn-failed': {
        const { code, message, provider } = event.data;
        this.ended = true;
        return [{ type: 'error', data: { code, provider: provider ?? null, message } }];
      }
      case 'turn-started':
        this.agent = event.data.agent;
        return [];
      case 'message-received':
        this.thinking = event.data.thinking ?? false;
        return [];
      case 'turn-resumed':
        this.ended = false;
        return [];
      case 'approval-resolved':
      case 'interrupt-requested':
      case 'context-condensed':
        return [];
    }
  }

  /** A message that begins anew after its process died begins its step anew. */
  private showText(step: number, { text, restarts }: Fresh): NativeFrame[] {
    if (restarts) this.stepOpen = false;
    const frames = this.openStep(step);
    if (text !== '') frames.push(part('text', text));
    return frames;
  }

  private openStep(step: number): NativeFrame[] {
    if (this.stepOpen && step === this.step) return [];
    this.step = step;
    this.stepOpen = true;
    return [{ type: 'step_start', data: { step, agent: this.agent } }];
  }

  private closeStep(finishReason: string, usage: Usage | undefined): NativeFrame[] {
    if (!this.stepOpen) return [];
    this.stepOpen = false;
    this.stepUsage = undefined;
    return [
      {
        type: 'step_finish',
        data: { step: this.step, finish_reason: finishReason, usage: wireUsage(usage ?? { input: 0, output: 0, cachedInput: 0 }) },
      },
    ];
  }
}

function part(type: 'text' | 'reasoning', text: string): NativeFrame {
  return { type, data: { part: { type, text } } };
}

/** The last frame of a stream that the server ends before the turn rests. */
export function closingFrame(reason: ClosingReason): NativeFrame {
  const { code, message } = closingError(reason);
  return { type: 'error', data: { code, provider: null, message } };
}

export function pendingInput(request: ApprovalRequested): PendingInput {
  const { requestId, kind, tool, message, options } = request;
  return { request_id: requestId, kind, tool, message, options };
}

/** The frame as it goes over the wire; `done` names no session in the specification. */
export function frameText(frame: NativeFrame, sessionId: string): string {
  const body =
    frame.type === 'done' ? { type: frame.type, data: frame.data } : { type: frame.type, session_id: sessionId, data: frame.data };
  return `event: ${frame.type}\ndata: ${JSON.stringify(body)}\n\n`;
}
