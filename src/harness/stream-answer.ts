import type { SubAgentConfig } from '../release-config.ts';
import type { NewEvent, ToolCalled } from '../session/events.ts';
import type { SessionState, TurnState } from '../session/state.ts';
import { noUsage, type Usage } from '../session/usage.ts';
import { type Model, type ModelCall, ModelError } from './model.ts';
import { buildPrompt } from './prompt.ts';
import type { Tool } from './tool.ts';
import { InterruptReason, storable, type TurnWorld, type TurnYield } from './turn-world.ts';

/** What one model call came to: whole events, ready to be stored together. */
export interface Answer {
  step: number;
  events: NewEvent[];
  calls: Omit<ToolCalled, 'step'>[];
  usage: Usage;
  interrupted: boolean;
}

const maxAttempts = 3;

/** Calls the model and shows its text as it comes. A failure that may pass is tried again from here, the last commit point. */
export async function* streamAnswer(
  state: SessionState,
  turn: TurnState,
  agent: SubAgentConfig,
  model: Model,
  tools: readonly Tool[],
  world: TurnWorld,
  signal: AbortSignal,
): AsyncGenerator<TurnYield, Answer, void> {
  const call: ModelCall = {
    instructions: agent.instructions,
    messages: buildPrompt(state),
    tools,
    thinking: turn.message?.thinking ?? false,
    settings: (agent.model ?? world.release.model).settings,
  };
  const shown = new Draft(turn, agent, turn.step + 1, world);
  for (let attempt = 1; ; attempt += 1) {
    const draft = attempt === 1 ? shown : shown.again();
    try {
      for await (const part of model.stream(call, signal)) {
        switch (part.type) {
          case 'text-delta':
          case 'reasoning-delta': {
            if (draft.diverges(part.type, part.text)) yield { type: 'commit', events: draft.abandonShown() };
            const fragment = draft.add(part.type, part.text);
            if (fragment !== undefined) yield { type: 'live', fragment };
            break;
          }
          case 'reasoning-end':
            draft.reasoningMetadata = part.providerMetadata;
            break;
          case 'tool-call':
            draft.calls.push({
              callId: world.newId('call_'),
              tool: part.tool,
              input: part.input,
              ...(part.providerMetadata === undefined ? {} : { providerMetadata: part.providerMetadata }),
            });
            break;
          case 'finish':
            return draft.finished(part.usage);
        }
      }
      throw new ModelError('broken_stream', model.provider, 'The model ended its answer early.');
    } catch (error) {
      if (signal.aborted) {
        if (signal.reason instanceof InterruptReason && signal.reason.reason === 'interrupted') return draft.interrupted();
        throw signal.reason;
      }
      if (!(error instanceof ModelError) || !error.retryable || attempt === maxAttempts) {
        const kept = error instanceof ModelError ? draft.interrupted().events : [];
        if (kept.length > 0) yield { type: 'commit', events: kept };
        throw error;
      }
      await world.sleep(retryDelay(attempt, error.retryAfterSeconds), signal);
    }
  }
}

function retryDelay(attempt: number, retryAfterSeconds: number | undefined): number {
  const backoff = 200 * 2 ** (attempt - 1) * (1 + Math.random() / 4);
  return Math.min(20_000, Math.max(backoff, (retryAfterSeconds ?? 0) * 1000));
}

/** An answer in the making. A second attempt shows only what goes beyond what the first one showed. */
class Draft {
  readonly calls: Answer['calls'] = [];
  reasoningMetadata: Record<string, unknown> | undefined;
  private readonly texts = { 'text-delta': '', 'reasoning-delta': '' };
  private shown: { 'text-delta': string; 'reasoning-delta': string };
  private readonly turn: TurnState;
  private readonly agent: SubAgentConfig;
  private readonly step: number;
  private readonly world: TurnWorld;
  private messageId: string;

  constructor(turn: TurnState, agent: SubAgentConfig, step: number, world: TurnWorld, before?: Draft) {
    this.turn = turn;
    this.agent = agent;
    this.step = step;
    this.world = world;
    this.messageId = before?.messageId ?? world.newId('msg_');
    this.shown = before?.shown ?? { 'text-delta': '', 'reasoning-delta': '' };
  }

  again(): Draft {
    return new Draft(this.turn, this.agent, this.step, this.world, this);
  }

  /** Takes a piece of text and returns what of it is new to whoever watches. */
  add(type: 'text-delta' | 'reasoning-delta', piece: string) {
    if (piece === '') return undefined;
    this.texts[type] += piece;
    const whole = this.texts[type];
    if (whole.length <= this.shown[type].length) return undefined;
    const text = whole.length - piece.length >= this.shown[type].length ? piece : whole.slice(this.shown[type].length);
    this.shown[type] = whole;
    return { type, turnId: this.turn.id, messageId: this.messageId, step: this.step, agent: this.agent.name, text } as const;
  }

  /** A second attempt that says something else than the first one showed. */
  diverges(type: 'text-delta' | 'reasoning-delta', piece: string): boolean {
    const begun = this.texts[type].length;
    if (begun >= this.shown[type].length) return false;
    const shown = this.shown[type].slice(begun, begun + piece.length);
    return !piece.startsWith(shown);
  }

  /** Closes what was shown as a message of its own; this attempt becomes another. */
  abandonShown(): NewEvent[] {
    const data = {
      messageId: this.messageId,
      text: storable(this.shown['text-delta']),
      step: this.step,
      agent: this.agent.name,
      partial: true,
    };
    this.messageId = this.world.newId('msg_');
    this.shown = { 'text-delta': '', 'reasoning-delta': '' };
    return data.text === '' ? [] : [{ type: 'message-produced', data }];
  }

  finished(usage: Usage): Answer {
    return { step: this.step, events: this.events(false), calls: this.calls, usage, interrupted: false };
  }

  interrupted(): Answer {
    return { step: this.step, events: this.events(true), calls: [], usage: noUsage, interrupted: true };
  }

  private events(partial: boolean): NewEvent[] {
    const events: NewEvent[] = [];
    const reasoning = storable(this.texts['reasoning-delta']);
    const text = storable(this.texts['text-delta']);
    if (reasoning !== '') {
      const providerMetadata = this.reasoningMetadata === undefined ? {} : { providerMetadata: this.reasoningMetadata };
      events.push({
        type: 'reasoning-produced',
        data: { messageId: this.messageId, text: reasoning, step: this.step, ...providerMetadata },
      });
    }
    if (text !== '' || (!partial && this.calls.length === 0)) {
      const data = { messageId: this.messageId, text, step: this.step, agent: this.agent.name };
      events.push({ type: 'message-produced', data: partial ? { ...data, partial } : data });
    }
    return events;
  }
}
