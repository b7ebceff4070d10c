import type { TurnEvent } from './types.ts';

type StepStart = Extract<TurnEvent, { type: 'step_start' }>;
type Words = 'reasoning' | 'text';

/** What was said in a step: to the caller, and by the server since it last began to tell the turn. */
interface Step {
  start: StepStart;
  given: Record<Words, string>;
  told: Record<Words, string>;
  /** Whether this telling has come to it. */
  isTold: boolean;
}

/**
 * What of a turn that is told again is new. Its text may be cut into other pieces, and a step whose server died while
 * the model was writing may say something else: then the step is begun anew, with another `step_start` of its number.
 */
export class ToldAgain {
  readonly #steps = new Map<number, Step>();
  readonly #given = new Set<string>();
  /** Where the telling is, and where the caller is. */
  #step: Step | undefined;
  #givenStep: Step | undefined;

  /** The turn is told from its start. */
  restart(): void {
    this.#step = undefined;
    for (const step of this.#steps.values()) {
      step.told = nothing();
      step.isTold = false;
    }
  }

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
    // Whether it goes on differently this time is seen in its words.
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

  /** A step that has ended with fewer words than were given out of it. */
  #corrected(step: Step | undefined): TurnEvent[] {
    if (step === undefined) return [];
    const isShorter = step.told.text.length < step.given.text.length || step.told.reasoning.length < step.given.reasoning.length;
    return isShorter ? this.#beginAnew(step) : [];
  }

  /** The same at the end of the turn, also for a step that it no longer came to. */
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
