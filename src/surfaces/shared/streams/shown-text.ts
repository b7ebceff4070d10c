import type { LiveFragment, MessageProduced } from '../../../session/events.ts';

/** What of a message is new to a watcher. `restarts`: it is another message than the one that was being shown. */
export interface Fresh {
  text: string;
  restarts: boolean;
}

const nothing: Fresh = { text: '', restarts: false };

/**
 * How much of the message that is being written a watcher has been shown. What it missed comes with the stored message,
 * so that the sum is always that message, also for one who began to watch in its middle.
 *
 * A process that dies leaves a message half written; another takes the turn over and writes the step's message from its
 * beginning, under another id. As long as it says what was shown already, that is not shown again.
 */
export class ShownText {
  private messageId = '';
  private step = 0;
  /** The beginning of the message, as far as it came live. */
  private text = '';
  /** What was shown of the step under the id before, while the new message has not gone beyond it. */
  private repeated = '';
  private isOpen = false;

  /** What of a live fragment can be shown now: nothing, when text before it was missed. */
  addLive(fragment: LiveFragment): Fresh {
    this.turnTo(fragment.messageId, fragment.step);
    if (fragment.offset !== this.text.length) return nothing;
    const before = this.text.length;
    this.text += fragment.text;
    // Nearly always so. It comes first because to look at `this.text` would make V8 join the pieces it is concatenated from.
    if (this.repeated === '') return { text: fragment.text, restarts: false };
    if (this.repeated.startsWith(this.text)) return nothing;
    return this.beyond(this.text, before);
  }

  /** What of the whole message was not shown while it came. */
  rest({ messageId, step, text }: MessageProduced): Fresh {
    this.turnTo(messageId, step);
    const fresh = this.beyond(text, this.text.length);
    this.isOpen = false;
    return fresh;
  }

  /** Asked when all of a step is stored: whether something was shown of a message that was not. */
  get isUnfinished(): boolean {
    return this.isOpen && (this.text !== '' || this.repeated !== '');
  }

  /** The message that was being shown will not be stored. */
  giveUp(): void {
    this.isOpen = false;
  }

  /** From here on it is this message that is being shown. */
  private turnTo(messageId: string, step: number): void {
    if (messageId === this.messageId) return;
    const isSameStep = this.isOpen && step === this.step;
    this.repeated = isSameStep ? this.repeated || this.text : '';
    this.messageId = messageId;
    this.step = step;
    this.text = '';
    this.isOpen = true;
  }

  /** What of `text` is new to one who was shown its first `shown` characters, or `repeated`. */
  private beyond(text: string, shown: number): Fresh {
    const { repeated } = this;
    this.repeated = '';
    if (text.startsWith(repeated)) return { text: text.slice(Math.max(shown, repeated.length)), restarts: false };
    return { text, restarts: true };
  }
}
