import type { Conversation } from '../../conversation/fold.ts';

/** A message that was sent from this page and may not be in the log yet. */
export interface Outgoing {
  id: number;
  /** Empty until the session is open. */
  sessionId: string;
  text: string;
  files: readonly File[];
  /** Whether the server has accepted it. It then enters the log when the turns before it have ended. */
  isAccepted: boolean;
  /** The last entry of the log when it was sent. */
  after: number;
}

/** The messages of this session that the log does not show yet: they wait for the network, or for a turn to end. */
export function notLogged(outgoing: readonly Outgoing[], sessionId: string, { items, running, pending }: Conversation): Outgoing[] {
  const logged = items.filter((item) => item.kind === 'user');
  const isAtRest = !running && pending === undefined;
  const lastSeq = items.at(-1)?.seq ?? 0;
  return outgoing.filter((message) => {
    if (message.sessionId !== sessionId) return false;
    const index = logged.findIndex(({ seq, text }) => seq > message.after && text === message.text);
    // Two messages with the same text are two entries.
    if (index >= 0) logged.splice(index, 1);
    // The end of a turn and the next message that waits enter the log together. If none did, what waited was dropped with its session.
    return index < 0 && !(message.isAccepted && isAtRest && lastSeq > message.after);
  });
}
