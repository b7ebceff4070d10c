import { isStored, type SessionUpdate, type StoredEvent } from '../../session/events.ts';
import { pendingInputOf } from '../../session/pending-input.ts';
import { noUsage, type Usage, wireUsage } from '../../session/usage.ts';
import { toolState } from '../../turn/collect.ts';
import { closingError } from '../shared/streams/closing-error.ts';
import type { ClosingReason } from '../shared/streams/open-streams.ts';
import { type NewText, ShownText } from '../shared/streams/shown-text.ts';
import { ShownReasoning } from './shown-reasoning.ts';

/** A frame of the native stream. */
export interface NativeFrame {
  type: 'text' | 'tool_use' | 'reasoning' | 'step_start' | 'step_finish' | 'input_required' | 'error' | 'done';
  data: Record<string, unknown>;
}

/**
 * Turns what a turn adds into native frames. Text that was shown as it came is not shown again when its whole message is
 * stored; what a watcher missed of it comes then, so that the sum is always the message. A step whose process died, and
 * that says something else when another one writes it again, begins anew: another `step_start` of its number says that
 * what was shown of its text and reasoning is void.
 */
export class NativeProjector {
  /** Whether the turn came to rest: nothing follows. */
  ended = false;
  /** Whether the message asked for the reasoning; known once the turn's first event came by. */
  private thinking = false;
  private readonly shownText = new ShownText();
  private readonly shownReasoning = new ShownReasoning();
  /** What each call was made with that has not finished. */
  private readonly inputs = new Map<string, unknown>();
  private agent = '';
  private step = 0;
  private stepOpen = false;
  private stepUsage: Usage | undefined;

  project(update: SessionUpdate): NativeFrame[] {
    if (isStored(update)) return this.projectStored(update);
    const { step, messageId, offset } = update;
    if (update.type === 'text-delta') return this.showLive(step, this.shownText.addLive(update));
    const frames = this.openStep(step);
    if (!this.thinking) return frames;
    const text = this.shownReasoning.addLive(messageId, offset, update.text, this.shownText.hasUnstored);
    return text === '' ? frames : [...frames, part('reasoning', text)];
  }

  private projectStored(event: StoredEvent): NativeFrame[] {
    switch (event.type) {
      case 'reasoning-produced': {
        const frames = this.openStep(event.data.step);
        if (!this.thinking) return frames;
        const missing = this.shownReasoning.store(event.data.messageId, event.data.text);
        return missing === '' ? frames : [...frames, part('reasoning', missing)];
      }
      case 'message-produced': {
        const { step, text } = event.data;
        const fresh = this.shownText.addStored(event.data);
        if (fresh.restarts || this.shownReasoning.isGivenUp)
          return [...this.beginAnew(step, this.shownReasoning.settle()), part('text', text)];
        return this.showText(step, fresh.text);
      }
      case 'tool-called': {
        const { callId, tool, input, step, stepUsage } = event.data;
        const frames = [...this.openStep(step), ...this.withdraw()];
        this.inputs.set(callId, input);
        this.stepUsage = stepUsage ?? this.stepUsage;
        return [...frames, { type: 'tool_use', data: { part: { type: 'tool_use', id: callId, tool, input, state: 'running' } } }];
      }
      case 'tool-finished': {
        const { callId, tool, output } = event.data;
        const input = this.inputs.get(callId) ?? null;
        this.inputs.delete(callId);
        this.agent = event.data.handoff ?? this.agent;
        const use = { type: 'tool_use', id: callId, tool, input, state: toolState(event.data), output };
        const frames: NativeFrame[] = [{ type: 'tool_use', data: { part: use } }];
        return this.inputs.size === 0 ? [...frames, ...this.closeStep('tool_calls', this.stepUsage)] : frames;
      }
      case 'approval-requested':
        this.ended = true;
        return [{ type: 'input_required', data: { ...pendingInputOf(event.data) } }];
      case 'turn-ended': {
        const { stopReason, usage, stepUsage, deniedRequestId } = event.data;
        this.ended = true;
        const denial = deniedRequestId === undefined ? {} : { denied: true, request_id: deniedRequestId };
        const interrupted = stopReason === 'end_turn' ? {} : { stop_reason: stopReason };
        return [
          ...this.withdraw(),
          ...this.closeStep(stopReason === 'end_turn' ? 'stop' : stopReason, stepUsage),
          { type: 'done', data: { usage: wireUsage(usage), ...denial, ...interrupted } },
        ];
      }
      case 'turn-failed': {
        const { code, message, provider } = event.data;
        this.ended = true;
        return [...this.withdraw(), { type: 'error', data: { code, provider: provider ?? null, message } }];
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

  private showLive(step: number, { text, restarts }: NewText): NativeFrame[] {
    if (!restarts) return this.showText(step, text);
    return [...this.beginAnew(step, this.shownReasoning.sinceText()), part('text', text)];
  }

  private showText(step: number, text: string): NativeFrame[] {
    const frames = this.openStep(step);
    if (text !== '') frames.push(part('text', text));
    return frames;
  }

  /** What was shown and has not been stored by now never will be. */
  private withdraw(): NativeFrame[] {
    if (!this.stepOpen || !(this.shownText.hasUnstored || this.shownReasoning.isGivenUp)) return [];
    this.shownText.giveUp();
    return this.beginAnew(this.step, this.shownReasoning.settle());
  }

  private beginAnew(step: number, reasoning: string): NativeFrame[] {
    this.step = step;
    this.stepOpen = true;
    const start: NativeFrame = { type: 'step_start', data: { step, agent: this.agent } };
    return reasoning === '' ? [start] : [start, part('reasoning', reasoning)];
  }

  private openStep(step: number): NativeFrame[] {
    if (this.stepOpen && step === this.step) return [];
    this.step = step;
    this.stepOpen = true;
    this.shownReasoning.clear();
    return [{ type: 'step_start', data: { step, agent: this.agent } }];
  }

  private closeStep(finishReason: string, usage: Usage | undefined): NativeFrame[] {
    if (!this.stepOpen) return [];
    this.stepOpen = false;
    this.stepUsage = undefined;
    return [{ type: 'step_finish', data: { step: this.step, finish_reason: finishReason, usage: wireUsage(usage ?? noUsage) } }];
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

/** The frame as it goes over the wire; only `done` names no session. */
export function frameText(frame: NativeFrame, sessionId: string): string {
  const body =
    frame.type === 'done' ? { type: frame.type, data: frame.data } : { type: frame.type, session_id: sessionId, data: frame.data };
  return `event: ${frame.type}\ndata: ${JSON.stringify(body)}\n\n`;
}
