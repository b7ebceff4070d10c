import { isStored, type SessionUpdate, type StoredEvent } from '../../session/events.ts';
import { denialOf, pendingInputOf } from '../../session/pending-input.ts';
import { betweenSteps } from '../../session/transcript.ts';
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
 * Turns the updates of a turn into native frames. Text that was shown live is not sent again when its message is stored; what
 * the client missed of it is sent then, so that the text frames always add up to the message. When the process of a turn dies,
 * another one repeats the step. If its text differs from what was sent, another `step_start` with the same number tells the
 * client to discard the text and reasoning of that step.
 */
export class NativeProjector {
  /** Whether the turn has ended or waits for an approval: nothing follows. */
  ended = false;
  /** Whether the message asked for the reasoning, which the first event of the turn says. */
  private showsReasoning = false;
  private readonly shownText = new ShownText();
  private readonly shownReasoning = new ShownReasoning();
  /** The inputs of the tool calls that have not finished, by call id. */
  private readonly inputs = new Map<string, unknown>();
  private agent = '';
  private step = 0;
  private isStepOpen = false;
  /** Whether the client has text of this step, and of an earlier one. */
  private hasText = false;
  private hasEarlierText = false;
  private stepUsage: Usage | undefined;

  project(update: SessionUpdate): NativeFrame[] {
    if (isStored(update)) return this.projectStored(update);
    const { step, messageId, offset } = update;
    if (update.type === 'text-delta') return this.showLive(step, this.shownText.addLive(update));
    const frames = this.openStep(step);
    if (!this.showsReasoning) return frames;
    const text = this.shownReasoning.addLive(messageId, offset, update.text, this.shownText.hasUnstored);
    return text === '' ? frames : [...frames, part('reasoning', text)];
  }

  private projectStored(event: StoredEvent): NativeFrame[] {
    switch (event.type) {
      case 'reasoning-produced': {
        const frames = this.openStep(event.data.step);
        if (!this.showsReasoning) return frames;
        const missing = this.shownReasoning.addStored(event.data.messageId, event.data.text);
        return missing === '' ? frames : [...frames, part('reasoning', missing)];
      }
      case 'message-produced': {
        const { step, text } = event.data;
        const missing = this.shownText.addStored(event.data);
        if (!missing.restarts && !this.shownReasoning.hasUnstored) return this.showText(step, missing.text);
        const restart = this.restartStep(step, this.shownReasoning.keepStored());
        return text === '' ? restart : [...restart, this.textPart(text)];
      }
      case 'tool-called': {
        const { callId, tool, input, step, stepUsage } = event.data;
        const frames = [...this.openStep(step), ...this.withdrawUnstored()];
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
        const { stopReason, usage, stepUsage } = event.data;
        this.ended = true;
        const interrupted = stopReason === 'end_turn' ? {} : { stop_reason: stopReason };
        return [
          ...this.withdrawUnstored(),
          ...this.closeStep(stopReason === 'end_turn' ? 'stop' : stopReason, stepUsage),
          { type: 'done', data: { usage: wireUsage(usage), ...denialOf(event.data), ...interrupted } },
        ];
      }
      case 'turn-failed': {
        const { code, message, provider } = event.data;
        this.ended = true;
        return [...this.withdrawUnstored(), { type: 'error', data: { code, provider: provider ?? null, message } }];
      }
      case 'turn-started':
        this.agent = event.data.agent;
        return [];
      case 'message-received':
        this.showsReasoning = event.data.thinking ?? false;
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
    return [...this.restartStep(step, this.shownReasoning.restart()), this.textPart(text)];
  }

  private showText(step: number, text: string): NativeFrame[] {
    const frames = this.openStep(step);
    if (text !== '') frames.push(this.textPart(text));
    return frames;
  }

  private textPart(text: string): NativeFrame {
    const separator = this.hasEarlierText && !this.hasText ? betweenSteps : '';
    this.hasText = true;
    return part('text', separator + text);
  }

  /** Called for events that follow the step's message in the log: text and reasoning that is not stored by then never will be. */
  private withdrawUnstored(): NativeFrame[] {
    if (!this.isStepOpen || !(this.shownText.hasUnstored || this.shownReasoning.hasUnstored)) return [];
    this.shownText.giveUp();
    return this.restartStep(this.step, this.shownReasoning.keepStored());
  }

  /** `reasoning` is the part of the step's reasoning that is still valid. */
  private restartStep(step: number, reasoning: string): NativeFrame[] {
    this.step = step;
    this.isStepOpen = true;
    this.hasText = false;
    const start: NativeFrame = { type: 'step_start', data: { step, agent: this.agent } };
    return reasoning === '' ? [start] : [start, part('reasoning', reasoning)];
  }

  private openStep(step: number): NativeFrame[] {
    if (this.isStepOpen && step === this.step) return [];
    this.step = step;
    this.isStepOpen = true;
    this.hasEarlierText ||= this.hasText;
    this.hasText = false;
    this.shownReasoning.clear();
    return [{ type: 'step_start', data: { step, agent: this.agent } }];
  }

  private closeStep(finishReason: string, usage: Usage | undefined): NativeFrame[] {
    if (!this.isStepOpen) return [];
    this.isStepOpen = false;
    this.stepUsage = undefined;
    return [{ type: 'step_finish', data: { step: this.step, finish_reason: finishReason, usage: wireUsage(usage ?? noUsage) } }];
  }
}

function part(type: 'text' | 'reasoning', text: string): NativeFrame {
  return { type, data: { part: { type, text } } };
}

/** The last frame of a stream that the server ends before the turn has ended. */
export function closingFrame(reason: ClosingReason): NativeFrame {
  const { code, message } = closingError(reason);
  return { type: 'error', data: { code, provider: null, message } };
}

/** The frame as text of an event stream. Every frame but `done` names the session. */
export function frameText(frame: NativeFrame, sessionId: string): string {
  const body =
    frame.type === 'done' ? { type: frame.type, data: frame.data } : { type: frame.type, session_id: sessionId, data: frame.data };
  return `event: ${frame.type}\ndata: ${JSON.stringify(body)}\n\n`;
}
