/** A block of reasoning that was shown live and is not stored yet. */
interface Block {
  text: string;
  /** Text of the step had been shown before this block: if the step restarts, the block belongs to the new attempt. */
  isAfterText: boolean;
}

/** Tracks what a watcher has been shown of the reasoning of the current step: live blocks by their message ids, and stored text. */
export class ShownReasoning {
  private readonly live = new Map<string, Block>();
  private stored = '';

  /** The part of a live fragment that can be shown now: nothing if its block began before the watcher came, until the block is stored. */
  addLive(messageId: string, offset: number, text: string, isAfterText: boolean): string {
    const block = this.live.get(messageId) ?? { text: '', isAfterText };
    const fresh = text.slice(Math.max(0, block.text.length - offset));
    if (offset > block.text.length || fresh === '') return '';
    block.text += fresh;
    this.live.set(messageId, block);
    return fresh;
  }

  /** The part of a stored block that was not shown live. */
  addStored(messageId: string, text: string): string {
    const shown = this.live.get(messageId)?.text.length ?? 0;
    this.live.delete(messageId);
    this.stored += text;
    return text.slice(shown);
  }

  /** Whether a block was shown that is not stored. Once the step's message is stored, it never will be. */
  get hasUnstored(): boolean {
    return this.live.size > 0;
  }

  /** The step restarts: forgets the blocks of the previous attempt, and returns the reasoning of the new one. */
  restart(): string {
    let text = this.stored;
    for (const [messageId, block] of this.live) {
      if (!block.isAfterText) this.live.delete(messageId);
      else text += block.text;
      block.isAfterText = false;
    }
    return text;
  }

  /** Forgets the blocks that were not stored, and returns the stored reasoning. */
  keepStored(): string {
    this.live.clear();
    return this.stored;
  }

  /** Another step begins. */
  clear(): void {
    this.live.clear();
    this.stored = '';
  }
}
