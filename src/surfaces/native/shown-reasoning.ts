interface Block {
  text: string;
  /** Text of its step had been shown before it: if the step is then begun anew, this block belongs to the new attempt. */
  isAfterText: boolean;
}

/** The reasoning of the step that is being shown: blocks that came live and are not stored yet, and what is stored. */
export class ShownReasoning {
  private readonly live = new Map<string, Block>();
  private stored = '';

  /** What of a live piece is new. To a watcher who missed the beginning of the block nothing is shown until the block is stored. */
  addLive(messageId: string, offset: number, text: string, isAfterText: boolean): string {
    const block = this.live.get(messageId) ?? { text: '', isAfterText };
    const fresh = text.slice(Math.max(0, block.text.length - offset));
    if (offset > block.text.length || fresh === '') return '';
    block.text += fresh;
    this.live.set(messageId, block);
    return fresh;
  }

  /** What of a stored block was not shown while it came. */
  store(messageId: string, text: string): string {
    const shown = this.live.get(messageId)?.text.length ?? 0;
    this.live.delete(messageId);
    this.stored += text;
    return text.slice(shown);
  }

  /** Whether something was shown that the step's stored reasoning, now complete, does not have. */
  get isGivenUp(): boolean {
    return this.live.size > 0;
  }

  /** The step was begun anew: forgets the blocks of the attempt before, and gives the reasoning of the new one. */
  sinceText(): string {
    let text = '';
    for (const [messageId, block] of this.live) {
      if (!block.isAfterText) this.live.delete(messageId);
      else text += block.text;
      block.isAfterText = false;
    }
    return text;
  }

  /** Forgets the blocks that were never stored, and gives what is stored. */
  settle(): string {
    this.live.clear();
    return this.stored;
  }

  /** The next step. */
  clear(): void {
    this.live.clear();
    this.stored = '';
  }
}
