import { isStored, type LiveFragment, type SessionUpdate } from './events.ts';

/** The text so far of messages that are being written, so that a watcher who joins in the middle gets it from its first word. */
export class Drafts {
  /** By session, then by message. */
  private readonly sessions = new Map<string, Map<string, LiveFragment>>();

  note(sessionId: string, update: SessionUpdate): void {
    if (!isStored(update)) this.append(sessionId, update);
    else if (update.type === 'reasoning-produced') this.sessions.get(sessionId)?.delete(update.data.messageId);
    // These come last in a step: a draft that is not stored by now broke off.
    else if (update.type === 'message-produced' || update.type === 'tool-called') this.drop(sessionId);
  }

  /** The turn no longer runs here: drafts that it has not stored are discarded. */
  drop(sessionId: string): void {
    this.sessions.delete(sessionId);
  }

  of(sessionId: string): Iterable<LiveFragment> {
    return this.sessions.get(sessionId)?.values() ?? [];
  }

  private append(sessionId: string, fragment: LiveFragment): void {
    const drafts = this.sessions.get(sessionId) ?? new Map<string, LiveFragment>();
    const known = drafts.get(fragment.messageId);
    if (fragment.offset === 0) {
      // An answer has one text: the one before it was given up, and the reasoning that led to it.
      if (fragment.type === 'text-delta') dropThroughText(drafts);
      drafts.set(fragment.messageId, { ...fragment });
    } else if (known !== undefined && known.text.length === fragment.offset) known.text += fragment.text;
    // A fragment is missing: the draft cannot be shown from its first word any more.
    else drafts.delete(fragment.messageId);
    this.sessions.set(sessionId, drafts);
  }
}

function dropThroughText(drafts: Map<string, LiveFragment>): void {
  const ids = [...drafts.keys()];
  const text = ids.findLastIndex((id) => drafts.get(id)?.type === 'text-delta');
  for (const id of ids.slice(0, text + 1)) drafts.delete(id);
}
