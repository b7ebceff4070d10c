import type { SubAgentConfig } from '../release-config.ts';
import type { LiveFragment, NewEvent, ToolCalled } from '../session/events.ts';
import type { SessionState, TurnState } from '../session/state.ts';
import { noUsage, type Usage } from '../session/usage.ts';
import { type Model, type ModelCall, ModelError } from './model.ts';
import { buildPrompt } from './prompt.ts';
import { storable, storableJson } from './storable.ts';
import type { Tool } from './tool.ts';
import { InterruptReason, type TurnWorld, type TurnYield } from './turn-world.ts';

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
            if (attempt > 1 && draft.diverges(part.type, part.text)) yield { type: 'commit', events: draft.abandonShown() };
            const fragment = draft.add(part.type, part.text);
            if (fragment !== undefined) yield { type: 'live', fragment };
            break;
          }
          case 'reasoning-end':
            draft.endReasoning(part.providerMetadata);
            break;
          case 'tool-call':
            draft.calls.push({
              callId: world.newId('call_'),
              tool: part.tool,
              input: storableJson(part.input),
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
        const why = signal.reason instanceof InterruptReason ? signal.reason.reason : undefined;
        if (why === 'interrupted') return draft.interrupted();
        const kept = why === 'timeout' ? draft.interrupted().events : [];
        if (kept.length > 0) yield { type: 'commit', events: kept };
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

type DeltaType = 'text-delta' | 'reasoning-delta';

/** A run of text under one id: the answer's text, or one block of its reasoning. */
interface Block {
  messageId: string;
  text: string;
  providerMetadata?: Record<string, unknown>;
}

/** An answer in the making. A second attempt shows only what goes beyond what the first one showed. */
class Draft {
  readonly calls: Answer['calls'] = [];
  private readonly turn: TurnState;
  private readonly agent: SubAgentConfig;
  private readonly step: number;
  private readonly world: TurnWorld;
  private readonly text: Block;
  private readonly reasoning: Block[] = [];
  private reasoningIsOpen = false;
  /** What watchers were shown, by block: `text`, `reasoning 0`, … */
  private shown: Map<string, Block>;

  constructor(turn: TurnState, agent: SubAgentConfig, step: number, world: TurnWorld, shown: Map<string, Block> = new Map()) {
    this.turn = turn;
    this.agent = agent;
    this.step = step;
    this.world = world;
    this.shown = shown;
    this.text = this.newBlock('text');
  }

  again(): Draft {
    return new Draft(this.turn, this.agent, this.step, this.world, this.shown);
  }

  /** Takes a piece of text and returns what of it is new to whoever watches. */
  add(type: DeltaType, piece: string): LiveFragment | undefined {
    if (piece === '') return undefined;
    const { key, block } = this.blockFor(type);
    block.text += piece;
    const before = this.shown.get(key)?.text.length ?? 0;
    if (block.text.length <= before) return undefined;
    const text = block.text.length - piece.length >= before ? piece : block.text.slice(before);
    this.shown.set(key, { messageId: block.messageId, text: block.text });
    const offset = block.text.length - text.length;
    return { type, turnId: this.turn.id, messageId: block.messageId, step: this.step, agent: this.agent.name, offset, text };
  }

  /** Ends a block of reasoning; one that says nothing may still carry what the provider wants back. */
  endReasoning(providerMetadata: Record<string, unknown> | undefined): void {
    if (!this.reasoningIsOpen && providerMetadata === undefined) return;
    const { block } = this.blockFor('reasoning-delta');
    if (providerMetadata !== undefined) block.providerMetadata = providerMetadata;
    this.reasoningIsOpen = false;
  }

  /** A second attempt that says something else than the first one showed. */
  diverges(type: DeltaType, piece: string): boolean {
    const { key, block } = this.blockFor(type);
    const shown = this.shown.get(key)?.text ?? '';
    return block.text.length < shown.length && !piece.startsWith(shown.slice(block.text.length, block.text.length + piece.length));
  }

  /** Closes what was shown as a message of its own; this attempt becomes another. */
  abandonShown(): NewEvent[] {
    const shown = this.shown.get('text');
    this.shown = new Map();
    this.text.messageId = this.world.newId('msg_');
    for (const block of this.reasoning) block.messageId = this.world.newId('msg_');
    return shown === undefined ? [] : [this.messageEvent(shown, true)];
  }

  finished(usage: Usage): Answer {
    return { step: this.step, events: this.events(false), calls: this.calls, usage, interrupted: false };
  }

  interrupted(): Answer {
    return { step: this.step, events: this.events(true), calls: [], usage: noUsage, interrupted: true };
  }

  private events(partial: boolean): NewEvent[] {
    const events: NewEvent[] = this.reasoning
      .filter((block) => block.text !== '' || block.providerMetadata !== undefined)
      .map((block) => ({ type: 'reasoning-produced', data: { ...block, text: storable(block.text), step: this.step } }));
    if (this.text.text !== '' || (!partial && this.calls.length === 0)) events.push(this.messageEvent(this.text, partial));
    return events;
  }

  private messageEvent(block: Block, partial: boolean): NewEvent {
    const data = { messageId: block.messageId, text: storable(block.text), step: this.step, agent: this.agent.name };
    return { type: 'message-produced', data: partial ? { ...data, partial } : data };
  }

  private blockFor(type: DeltaType): { key: string; block: Block } {
    if (type === 'text-delta') return { key: 'text', block: this.text };
    if (!this.reasoningIsOpen) {
      this.reasoning.push(this.newBlock(`reasoning ${this.reasoning.length}`));
      this.reasoningIsOpen = true;
    }
    const last = this.reasoning.length - 1;
    return { key: `reasoning ${last}`, block: this.reasoning[last] ?? this.text };
  }

  private newBlock(key: string): Block {
    return { messageId: this.shown.get(key)?.messageId ?? this.world.newId('msg_'), text: '' };
  }
}
