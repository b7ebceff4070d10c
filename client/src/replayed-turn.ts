import type { TurnEvent } from './types.ts';

type StepStart = Extract<TurnEvent, { type: 'step_start' }>;
type TextType = 'reasoning' | 'text';

interface Step {
  start: StepStart;
  /** The text that the caller has. */
  delivered: Record<TextType, string>;
  /** The text that came over the current connection, which starts with the turn's first event. */
  received: Record<TextType, string>;
  /** Whether the current connection has reached this step. */
  isReached: boolean;
}

/**
 * After a broken connection the server sends the whole turn again: this finds what the caller does not have yet. The text
 * may be cut into other pieces than before. If the server died while the model was writing, the model writes the step
 * again, perhaps differently: then the caller gets another `step_start` with that number, and the step's text from its
 * beginning.
 */
export class ReplayedTurn {
  readonly #steps = new Map<number, Step>();
  /** Keys of the delivered events that are not text. */
  readonly #deliveredKeys = new Set<string>();
  /** The step that the server is sending. */
  #step: Step | undefined;
  /** The step of the last text or `step_start` that the caller got. */
  #deliveredStep: Step | undefined;

  /** A new connection is open: the server will send the turn from its first event. */
  restart(): void {
    this.#step = undefined;
    for (const step of this.#steps.values()) {
      step.received = noText();
      step.isReached = false;
    }
  }

  /** What to deliver to the caller, now that the server has sent this event. */
  receive(event: TurnEvent): TurnEvent[] {
    switch (event.type) {
      case 'step_start':
        return this.#startStep(event);
      case 'text':
      case 'reasoning':
        return this.#receiveText(event);
      case 'done':
      case 'error':
      case 'input_required':
        return [...this.#correctAtEnd(), event];
      case 'tool_use':
        return [...this.#correct(this.#step), ...this.#once(`${event.data.part.id} ${event.data.part.state}`, event)];
      case 'step_finish':
        return [...this.#correct(this.#step), ...this.#once(`finish ${event.data.step}`, event)];
    }
  }

  #startStep(start: StepStart): TurnEvent[] {
    const known = this.#steps.get(start.data.step);
    const corrections = known === this.#step ? [] : this.#correct(this.#step);
    this.#step = known ?? { start, delivered: noText(), received: noText(), isReached: true };
    this.#step.received = noText();
    this.#step.isReached = true;
    // A known step is started again for the caller only when its text turns out to differ.
    if (known !== undefined) return corrections;
    this.#steps.set(start.data.step, this.#step);
    this.#deliveredStep = this.#step;
    return [...corrections, start];
  }

  #receiveText(event: Extract<TurnEvent, { type: TextType }>): TurnEvent[] {
    const step = this.#step;
    if (step === undefined) return [event];
    const { type } = event;
    const piece = event.data.part.text;
    const known = step.delivered[type].slice(step.received[type].length, step.received[type].length + piece.length);
    step.received[type] += piece;
    if (known === piece) return [];
    if (!piece.startsWith(known) || step !== this.#deliveredStep) return this.#deliverAgain(step);
    step.delivered[type] = step.received[type];
    return known === '' ? [event] : [textEvent(step, type, piece.slice(known.length))];
  }

  /** Called when the step's text is complete: if it is shorter than what the caller has, the step is delivered again. */
  #correct(step: Step | undefined): TurnEvent[] {
    if (step === undefined) return [];
    const { delivered, received } = step;
    const isShorter = received.text.length < delivered.text.length || received.reasoning.length < delivered.reasoning.length;
    return isShorter ? this.#deliverAgain(step) : [];
  }

  /** At the end of the turn, also corrects the steps that the caller has and that the turn no longer contains. */
  #correctAtEnd(): TurnEvent[] {
    const dropped = [...this.#steps.values()].filter((step) => !step.isReached);
    return [this.#step, ...dropped].flatMap((step) => this.#correct(step));
  }

  #deliverAgain(step: Step): TurnEvent[] {
    step.delivered = { ...step.received };
    this.#deliveredStep = step;
    const types: TextType[] = ['reasoning', 'text'];
    return [step.start, ...types.filter((type) => step.received[type] !== '').map((type) => textEvent(step, type, step.received[type]))];
  }

  #once(key: string, event: TurnEvent): TurnEvent[] {
    if (this.#deliveredKeys.has(key)) return [];
    this.#deliveredKeys.add(key);
    return [event];
  }
}

/** The two branches are the same; the compiler wants to see each type by itself. */
function textEvent({ start: { session_id } }: Step, type: TextType, text: string): TurnEvent {
  return type === 'text' ? { type, session_id, data: { part: { type, text } } } : { type, session_id, data: { part: { type, text } } };
}

function noText(): Record<TextType, string> {
  return { reasoning: '', text: '' };
}
