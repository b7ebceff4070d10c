import type { TurnEvent } from './types.ts';

/** The text of a turn so far. A second `step_start` with the same number replaces the text of that step. */
export class TurnText {
  readonly #steps = new Map<number, string>();
  #step = 0;

  add(event: TurnEvent): void {
    if (event.type === 'step_start') {
      this.#step = event.data.step;
      this.#steps.set(this.#step, '');
    }
    if (event.type === 'text') this.#steps.set(this.#step, (this.#steps.get(this.#step) ?? '') + event.data.part.text);
  }

  get text(): string {
    return [...this.#steps.values()].join('');
  }
}
