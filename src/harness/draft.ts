import type { SubAgentConfig } from '../release-config.ts';
import type { LiveFragment, NewEvent, ToolCalled } from '../session/events.ts';
import type { TurnState } from '../session/state.ts';
import { noUsage, type Usage } from '../session/usage.ts';
import { storable } from '../storable.ts';
import type { ModelCall } from './model.ts';
import { countTokens, promptTokens, valueLength } from './models/estimate-tokens.ts';
import type { ModelStep, TurnWorld } from './turn-world.ts';

/** What one model call came to: whole events, ready to be stored together. */
export interface Answer {
  step: number;
  events: NewEvent[];
  calls: Omit<ToolCalled, 'step'>[];
  usage: Usage;
  interrupted: boolean;
}

type DeltaType = 'text-delta' | 'reasoning-delta';

/** A run of text under one id: the answer's text, or one block of its reasoning. */
interface Block {
  messageId: string;
  text: string;
  providerMetadata?: Record<string, unknown>;
}

/** An answer in the making. A second attempt shows only what goes beyond what the first one showed. */
export class Draft {
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

  constructor({ turn, agent, world }: Pick<ModelStep, 'turn' | 'agent' | 'world'>, step: number, shown: Map<string, Block> = new Map()) {
    this.turn = turn;
    this.agent = agent;
    this.step = step;
    this.world = world;
    this.shown = shown;
    this.text = this.newBlock('text');
  }

  /** Besides its text. */
  get parts(): number {
    return this.calls.length + this.reasoning.length;
  }

  again(): Draft {
    return new Draft({ turn: this.turn, agent: this.agent, world: this.world }, this.step, this.shown);
  }

  /** Takes a piece of text and returns what of it is new to whoever watches. */
  add(type: DeltaType, piece: string): LiveFragment | undefined {
    if (piece === '') return undefined;
    const { key, block } = this.blockFor(type);
    block.text += piece;
    const before = this.shown.get(key)?.text.length ?? 0;
    if (block.text.length <= before) return undefined;
    return this.show(type, key, block, block.text.length - piece.length >= before ? piece : block.text.slice(before));
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

  /** A second attempt that says less than the first one showed; asked at its end. */
  fallsShort(): boolean {
    const blocks = [this.text, ...this.reasoning];
    return [...this.shown.values()].some(
      ({ messageId, text }) => text.length > (blocks.find((block) => block.messageId === messageId)?.text.length ?? 0),
    );
  }

  /** What was shown is void: this attempt is another message, and is shown from its first word on. */
  beginAnew(): LiveFragment[] {
    this.shown = new Map();
    const fragments = this.reasoning.map((block, index) => this.showAgain('reasoning-delta', `reasoning ${index}`, block));
    return [...fragments, this.showAgain('text-delta', 'text', this.text)].filter(({ text }) => text !== '');
  }

  finished(usage: Usage): Answer {
    return { step: this.step, events: this.events(false), calls: this.calls, usage, interrupted: false };
  }

  /**
   * What a call that did not finish has used. Providers report usage only at the end of an answer, so it is estimated from what
   * arrived: nothing, if the answer had not begun. When the answer was to come in one piece, a call that we stopped was already
   * being worked on, so its input counts.
   */
  estimateUsage(call: ModelCall, isStopped: boolean): Usage {
    let characters = this.text.text.length;
    for (const block of this.reasoning) characters += block.text.length;
    for (const { tool, input } of this.calls) characters += tool.length + valueLength(input);
    if (characters === 0 && !(isStopped && call.whole === true)) return noUsage;
    return { input: promptTokens(call), output: countTokens(characters), cachedInput: 0 };
  }

  interrupted(usage: Usage): Answer {
    return { step: this.step, events: this.events(true), calls: [], usage, interrupted: true };
  }

  /** What is left of an answer that will not be finished. No end of a step follows to say what it cost: its last event does. */
  failed(stepUsage: Usage): NewEvent[] {
    const events = this.events(true);
    const last = events.at(-1);
    if (last?.type === 'message-produced' || last?.type === 'reasoning-produced') last.data.stepUsage = stepUsage;
    return events;
  }

  private events(partial: boolean): NewEvent[] {
    const events: NewEvent[] = this.reasoning
      .filter((block) => block.text !== '' || block.providerMetadata !== undefined)
      .map((block) => ({ type: 'reasoning-produced', data: { ...block, text: storable(block.text), step: this.step } }));
    // A later attempt may have ended before it came as far as what an earlier one showed.
    const shown = partial ? this.shown.get('text') : undefined;
    const block = shown !== undefined && shown.text.length > this.text.text.length ? shown : this.text;
    if (block.text !== '' || (!partial && this.calls.length === 0)) events.push(this.messageEvent(block, partial));
    return events;
  }

  private showAgain(type: DeltaType, key: string, block: Block): LiveFragment {
    block.messageId = this.world.newId('msg_');
    return this.show(type, key, block, block.text);
  }

  /** `text` is the end of what the block has come to. */
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
