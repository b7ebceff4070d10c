import type { LiveFragment, MessageProduced } from '../../../session/events.ts';

/** Text that a watcher has not been shown yet. `restarts`: it replaces what was shown of its step so far. */
export interface NewText {
  text: string;
  restarts: boolean;
}

const nothing: NewText = { text: '', restarts: false };

/**
 * Tracks what a watcher has been shown of the message that is being written. Live text is shown as it comes; what the watcher
 * missed, for example because it began to watch in the middle, is shown when the message is stored. The sum is that message.
 *
 * When a process dies in the middle of a message, another takes the turn over and writes the message of that step from its
 * beginning, under another id. Nothing is shown again while it repeats what was shown; where it differs, the text restarts.
 */
export class ShownText {
  private messageId = '';
  private step = 0;
  /** The beginning of the message, as far as it came live. */
  private text = '';
  /** What was shown of this step under an earlier message id, until the new message differs or goes beyond it. */
  private repeated = '';
  /** The message has not been stored, and was not given up. */
  private isOpen = false;

  /** The part of a live fragment that can be shown now: nothing if text before it was missed. */
  addLive(fragment: LiveFragment): NewText {
    this.switchTo(fragment.messageId, fragment.step);
    if (fragment.offset !== this.text.length) return nothing;
    const before = this.text.length;
    this.text += fragment.text;
    // The usual case, and first because reading `this.text` makes V8 join the pieces that it was concatenated from.
    if (this.repeated === '') return { text: fragment.text, restarts: false };
    if (this.repeated.startsWith(this.text)) return nothing;
    return this.newPartOf(this.text, before);
  }

  /** The part of the stored message that was not shown live. */
  addStored({ messageId, step, text }: MessageProduced): NewText {
    this.switchTo(messageId, step);
    const missing = this.newPartOf(text, this.text.length);
    this.isOpen = false;
    return missing;
  }

  /** Whether text was shown of a message that has not been stored. */
  get hasUnstored(): boolean {
    return this.isOpen && (this.text !== '' || this.repeated !== '');
  }

  /** The message that was being shown will never be stored. */
  giveUp(): void {
    this.isOpen = false;
  }

  private switchTo(messageId: string, step: number): void {
    if (messageId === this.messageId) return;
    const isSameStep = this.isOpen && step === this.step;
    this.repeated = isSameStep ? this.repeated || this.text : '';
    this.messageId = messageId;
    this.step = step;
    this.text = '';
    this.isOpen = true;
  }

  /** The part of `text` that is new to a watcher who was shown its first `shown` characters, or `repeated`. */
  private newPartOf(text: string, shown: number): NewText {
    const { repeated } = this;
    this.repeated = '';
    if (text.startsWith(repeated)) return { text: text.slice(Math.max(shown, repeated.length)), restarts: false };
    return { text, restarts: true };
  }
}
