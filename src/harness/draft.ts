import type { SubAgentConfig } from '../release-config.ts';
import type { LiveFragment, NewEvent, ToolCalled } from '../session/events.ts';
import type { TurnState } from '../session/state.ts';
import type { Usage } from '../session/usage.ts';
import { storable } from '../text/storable.ts';
import type { ModelStep, TurnWorld } from './turn-world.ts';

/** The result of one model call: complete events, ready to be stored together. */
export interface Answer {
  step: number;
  events: NewEvent[];
  calls: Omit<ToolCalled, 'step'>[];
  usage: Usage;
  interrupted: boolean;
}

type DeltaType = 'text-delta' | 'reasoning-delta';

/** Text under one message id: the answer's text, or one block of its reasoning. */
interface Block {
  messageId: string;
  text: string;
  providerMetadata?: Record<string, unknown>;
}

/** An answer while the model produces it. Each attempt at a model call has its own, and shows only what watchers have not seen yet. */
export class Draft {
  readonly calls: Answer['calls'] = [];
  private readonly turn: TurnState;
  private readonly agent: SubAgentConfig;
  private readonly step: number;
  private readonly world: TurnWorld;
  private readonly text: Block;
  private readonly reasoning: Block[] = [];
  /** The last block of reasoning, until it ends. */
  private openReasoning: Block | undefined;
  /** What watchers were shown so far, by any attempt. The keys are `text`, `reasoning 0`, `reasoning 1`, … */
  private shown: Map<string, Block>;

  constructor({ turn, agent, world }: Pick<ModelStep, 'turn' | 'agent' | 'world'>, step: number, shown: Map<string, Block> = new Map()) {
    this.turn = turn;
    this.agent = agent;
    this.step = step;
    this.world = world;
    this.shown = shown;
    this.text = this.newBlock('text');
  }

  /** How many parts the answer has besides its text. */
  get parts(): number {
    return this.calls.length + this.reasoning.length;
  }

  nextAttempt(): Draft {
    return new Draft({ turn: this.turn, agent: this.agent, world: this.world }, this.step, this.shown);
  }

  /** Adds a piece of text. Returns the part of it that watchers have not seen. */
  add(type: DeltaType, piece: string): LiveFragment | undefined {
    if (piece === '') return undefined;
    const { key, block } = this.blockFor(type);
    block.text += piece;
    const before = this.shown.get(key)?.text.length ?? 0;
    if (block.text.length <= before) return undefined;
    return this.show(type, key, block, block.text.length - piece.length >= before ? piece : block.text.slice(before));
  }

  /** Ends a block of reasoning. A block without text may still have metadata that the provider needs back. */
  endReasoning(providerMetadata: Record<string, unknown> | undefined): void {
    if (this.openReasoning === undefined && providerMetadata === undefined) return;
    const { block } = this.blockFor('reasoning-delta');
    if (providerMetadata !== undefined) block.providerMetadata = providerMetadata;
    this.openReasoning = undefined;
  }

  /** Whether this attempt continues differently from what an earlier one showed. */
  diverges(type: DeltaType, piece: string): boolean {
    const { key, block } = this.blockFor(type);
    const shown = this.shown.get(key)?.text ?? '';
    return block.text.length < shown.length && !piece.startsWith(shown.slice(block.text.length, block.text.length + piece.length));
  }

  /** Whether this attempt, now complete, says less than an earlier one showed. */
  fallsShort(): boolean {
    const blocks = [this.text, ...this.reasoning];
    return [...this.shown.values()].some(
      ({ messageId, text }) => text.length > (blocks.find((block) => block.messageId === messageId)?.text.length ?? 0),
    );
  }

  /** Gives up on what was shown: this attempt becomes another message, which is shown from its first word on. */
  beginAnew(): LiveFragment[] {
    this.shown = new Map();
    const fragments = this.reasoning.map((block, index) => this.showAgain('reasoning-delta', `reasoning ${index}`, block));
    return [...fragments, this.showAgain('text-delta', 'text', this.text)].filter(({ text }) => text !== '');
  }

  finished(usage: Usage): Answer {
    return { step: this.step, events: this.events(false), calls: this.calls, usage, interrupted: false };
  }

  interrupted(usage: Usage): Answer {
    return { step: this.step, events: this.events(true), calls: [], usage, interrupted: true };
  }

  /** The events of an answer that will not be finished. The last one carries the usage, because no end of the step follows. */
  failed(stepUsage: Usage): NewEvent[] {
    const events = this.events(true);
    const last = events.at(-1);
    if (last?.type === 'message-produced' || last?.type === 'reasoning-produced') last.data.stepUsage = stepUsage;
    return events;
  }

  private events(partial: boolean): NewEvent[] {
    const reasoning = partial ? this.reasoningAsShown() : this.reasoning;
    const text = partial ? this.asShown('text', this.text) : this.text;
    const events: NewEvent[] = reasoning
      .filter((block) => block.text !== '' || block.providerMetadata !== undefined)
      .map((block) => ({ type: 'reasoning-produced', data: { ...block, text: storable(block.text), step: this.step } }));
    if (text.text !== '' || (!partial && this.calls.length === 0)) events.push(this.messageEvent(text, partial));
    return events;
  }

  /** This attempt may have failed before it came as far as an earlier one: then what that one showed is kept. */
  private asShown(key: string, block: Block): Block {
    const shown = this.shown.get(key);
    return shown !== undefined && shown.text.length > block.text.length ? shown : block;
  }

  private reasoningAsShown(): Block[] {
    const blocks = this.reasoning.map((block, index) => this.asShown(`reasoning ${index}`, block));
    for (const [key, block] of this.shown) if (key === `reasoning ${blocks.length}`) blocks.push(block);
    return blocks;
  }

  private showAgain(type: DeltaType, key: string, block: Block): LiveFragment {
    block.messageId = this.world.newId('msg_');
    return this.show(type, key, block, block.text);
  }

  /** `text` is the last part of the block's text. */
  private show(type: DeltaType, key: string, { messageId, text: whole }: Block, text: string): LiveFragment {
    this.shown.set(key, { messageId, text: whole });
    return { type, turnId: this.turn.id, messageId, step: this.step, agent: this.agent.name, offset: whole.length - text.length, text };
  }

  private messageEvent(block: Block, partial: boolean): NewEvent {
    const data = { messageId: block.messageId, text: storable(block.text), step: this.step, agent: this.agent.name };
    return { type: 'message-produced', data: partial ? { ...data, partial } : data };
  }

  private blockFor(type: DeltaType): { key: string; block: Block } {
    if (type === 'text-delta') return { key: 'text', block: this.text };
    if (this.openReasoning === undefined) {
      this.openReasoning = this.newBlock(`reasoning ${this.reasoning.length}`);
      this.reasoning.push(this.openReasoning);
    }
    return { key: `reasoning ${this.reasoning.length - 1}`, block: this.openReasoning };
  }

  private newBlock(key: string): Block {
    return { messageId: this.shown.get(key)?.messageId ?? this.world.newId('msg_'), text: '' };
  }
}
