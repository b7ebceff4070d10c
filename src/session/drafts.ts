import { isStored, type LiveFragment, type SessionUpdate } from './events.ts';

/** The text so far of messages that are being written, so that whoever joins in the middle is shown it from its first word. */
export class Drafts {
  /** By session, then by message. */
  private readonly sessions = new Map<string, Map<string, LiveFragment>>();

  note(sessionId: string, update: SessionUpdate): void {
    if (!isStored(update)) this.append(sessionId, update);
    else if (update.type === 'reasoning-produced') this.sessions.get(sessionId)?.delete(update.data.messageId);
    // With these the step has said all: what is not stored by now broke off.
    else if (update.type === 'message-produced' || update.type === 'tool-called') this.drop(sessionId);
  }

  /** The turn has left this process: what it had not stored is written anew elsewhere, or never. */
  drop(sessionId: string): void {
    this.sessions.delete(sessionId);
  }

  of(sessionId: string): Iterable<LiveFragment> {
    return this.sessions.get(sessionId)?.values() ?? [];
  }

  private append(sessionId: string, fragment: LiveFragment): void {
    const drafts = this.sessions.get(sessionId) ?? new Map<string, LiveFragment>();
    const known = drafts.get(fragment.messageId);
    if (fragment.offset === 0) drafts.set(fragment.messageId, { ...fragment });
    else if (known !== undefined && known.text.length === fragment.offset) known.text += fragment.text;
    // Part of it was missed here, so there is no beginning to show.
    else drafts.delete(fragment.messageId);
    this.sessions.set(sessionId, drafts);
  }
}
