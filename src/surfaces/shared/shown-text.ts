import type { LiveFragment } from '../../session/events.ts';

/**
 * How much of the message that is being written a watcher has been shown. What it missed comes with the stored message,
 * so that the sum is always that message, also for one who began to watch in its middle.
 */
export class ShownText {
  private messageId = '';
  private length = 0;

  /** What of a live fragment can be shown now: nothing, when text before it was missed. */
  addLive(fragment: LiveFragment): string {
    if (fragment.messageId !== this.messageId) {
      this.messageId = fragment.messageId;
      this.length = 0;
    }
    if (fragment.offset !== this.length) return '';
    this.length += fragment.text.length;
    return fragment.text;
  }

  /** What of the whole message was not shown while it came. */
  restOf(messageId: string, text: string): string {
    return messageId === this.messageId ? text.slice(this.length) : text;
  }
}
