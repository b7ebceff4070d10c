import { withDistinctNames } from './distinct-names.ts';

/** What is in the message field and not sent yet. */
export class Draft {
  text = '';
  files: File[] = [];
  /** Lines that could not be sent, for as long as the text begins with them. */
  #takenBack = '';

  clear(): void {
    this.text = '';
    this.files = [];
    this.#takenBack = '';
  }

  /** Puts in what could not be sent: after what came back before, and before what was typed meanwhile. */
  takeBack(text: string, files: File[]): void {
    const lines = this.text === '' ? '' : `${this.text}\n`;
    const before = lines.startsWith(this.#takenBack) ? this.#takenBack : '';
    this.#takenBack = `${before}${text}\n`;
    this.text = `${this.#takenBack}${lines.slice(before.length)}`.slice(0, -1);
    this.files = withDistinctNames([...files, ...this.files]);
  }

  attach(files: File[]): void {
    this.files = withDistinctNames([...this.files, ...files]);
  }
}
