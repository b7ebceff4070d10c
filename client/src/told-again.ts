import type { TurnEvent } from './types.ts';

type StepStart = Extract<TurnEvent, { type: 'step_start' }>;
type Words = 'reasoning' | 'text';

/** The words of one step. `given`: what the caller was handed. `told`: what the server has sent since it last began with the turn. */
interface Step {
  start: StepStart;
  given: Record<Words, string>;
  told: Record<Words, string>;
  /** Whether the server has come to this step since it last began with the turn. */
  isTold: boolean;
}

/**
 * After a broken connection the server sends the whole turn again: this finds what of it the caller does not have yet.
 * The text may be cut into other pieces than before, and a step whose server died while the model was writing may say
 * something else: then the caller gets another `step_start` of that number, and the step's words from their beginning.
 */
export class ToldAgain {
  readonly #steps = new Map<number, Step>();
  readonly #given = new Set<string>();
  /** The step that the server is sending, and the last that the caller was handed something of. */
  #step: Step | undefined;
  #givenStep: Step | undefined;

  /** The server begins with the turn again. */
  restart(): void {
    this.#step = undefined;
    for (const step of this.#steps.values()) {
      step.told = nothing();
      step.isTold = false;
    }
  }

  /** What the caller is handed when the server has sent this. */
  fresh(event: TurnEvent): TurnEvent[] {
    switch (event.type) {
      case 'step_start':
        return this.#begin(event);
      case 'text':
      case 'reasoning':
        return this.#say(event);
      case 'done':
      case 'error':
      case 'input_required':
        return [...this.#givenUp(), event];
      case 'tool_use':
        return [...this.#corrected(this.#step), ...this.#once(`${event.data.part.id} ${event.data.part.state}`, event)];
      case 'step_finish':
        return [...this.#corrected(this.#step), ...this.#once(`finish ${event.data.step}`, event)];
    }
  }

  #begin(start: StepStart): TurnEvent[] {
    const known = this.#steps.get(start.data.step);
    const before = known === this.#step ? [] : this.#corrected(this.#step);
    this.#step = known ?? { start, given: nothing(), told: nothing(), isTold: true };
    // If it is a known step, its words will show whether it goes differently this time.
    this.#step.told = nothing();
    this.#step.isTold = true;
    if (known !== undefined) return before;
    this.#steps.set(start.data.step, this.#step);
    this.#givenStep = this.#step;
    return [...before, start];
  }

  #say(event: Extract<TurnEvent, { type: Words }>): TurnEvent[] {
    const step = this.#step;
    if (step === undefined) return [event];
    const { type } = event;
    const piece = event.data.part.text;
    const known = step.given[type].slice(step.told[type].length, step.told[type].length + piece.length);
    step.told[type] += piece;
    if (known === piece) return [];
    if (!piece.startsWith(known) || step !== this.#givenStep) return this.#beginAnew(step);
    step.given[type] = step.told[type];
    return known === '' ? [event] : [said(step, type, piece.slice(known.length))];
  }

  /** If the step has ended with fewer words than the caller was handed: the step anew. */
  #corrected(step: Step | undefined): TurnEvent[] {
    if (step === undefined) return [];
    const isShorter = step.told.text.length < step.given.text.length || step.told.reasoning.length < step.given.reasoning.length;
    return isShorter ? this.#beginAnew(step) : [];
  }

  /** The same at the end of the turn, also for steps that the caller knows and the turn now does not have. */
  #givenUp(): TurnEvent[] {
    const untold = [...this.#steps.values()].filter((step) => !step.isTold);
    return [this.#step, ...untold].flatMap((step) => this.#corrected(step));
  }

  #beginAnew(step: Step): TurnEvent[] {
    step.given = { ...step.told };
    this.#givenStep = step;
    const words: Words[] = ['reasoning', 'text'];
    return [step.start, ...words.filter((type) => step.told[type] !== '').map((type) => said(step, type, step.told[type]))];
  }

  #once(key: string, event: TurnEvent): TurnEvent[] {
    if (this.#given.has(key)) return [];
    this.#given.add(key);
    return [event];
  }
}

function said({ start: { session_id } }: Step, type: Words, text: string): TurnEvent {
  return type === 'text' ? { type, session_id, data: { part: { type, text } } } : { type, session_id, data: { part: { type, text } } };
}

function nothing(): Record<Words, string> {
  return { reasoning: '', text: '' };
}
