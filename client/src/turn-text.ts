import type { TurnEvent } from './types.ts';

/** What a turn has said so far. A step that is begun anew, with a second `step_start`, replaces what it had said before. */
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
