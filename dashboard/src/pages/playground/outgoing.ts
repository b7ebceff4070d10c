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
  const taken = new Map<string, number>();
  return outgoing.flatMap((message) => {
    if (message.sessionId !== sessionId) return [];
    // Two messages with the same text are two entries, also when the first is not among `outgoing` any more.
    const after = Math.max(message.after, taken.get(message.text) ?? 0);
    const entry = logged.find(({ seq, text }) => seq > after && text === message.text);
    if (entry !== undefined) {
      taken.set(message.text, entry.seq);
      return [];
    }
    // The end of a turn and the next message that waits enter the log together. If none did, what waited was dropped with its session.
    return message.isAccepted && isAtRest && lastSeq > after ? [] : [{ ...message, after }];
  });
}
