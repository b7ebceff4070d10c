/** A message that was typed and is not in the log yet: it waits for the messages before it, or for the network. */
export interface Outgoing {
  text: string;
  files: string[];
}

/** The element that shows a conversation. */
export interface Page {
  /** What is in its message field. */
  typed(): string;
  /** Puts what could not be sent back into the field. */
  takeBack(text: string, files: File[], error: unknown): void;
  changed(): void;
  /** Follows what `open` gives while it is in view: see `followInView`. */
  follow<Event>(open: (signal: AbortSignal) => AsyncIterable<Event>, signal: AbortSignal, onLeave: () => void): AsyncIterable<Event>;
}

/** By the key of what is stored, for as long as anything is being sent. Otherwise the storage has all that is unsent. */
const underWay = new Map<string, Sending>();

/**
 * What the chats of one conversation have in common. An element that is moved, or replaced by another one, gets a new chat while its
 * former one is still sending.
 */
export class Sending {
  /** What is not sent yet, of all these chats. */
  messages: Outgoing[] = [];
  /** Settled when all of that was sent or given up. */
  ended: Promise<unknown> = Promise.resolve();
  /** The chat that came last. */
  latest: { readonly page: Page; keep(): void } | undefined;
  readonly #key: string;

  constructor(key: string) {
    this.#key = key;
  }

  begin(message: Outgoing, ended: Promise<unknown>): void {
    this.messages.push(message);
    this.ended = Promise.all([this.ended, ended]);
    underWay.set(this.#key, this);
  }

  end(message: Outgoing): void {
    this.messages = this.messages.filter((other) => other !== message);
    if (this.messages.length === 0 && underWay.get(this.#key) === this) underWay.delete(this.#key);
  }
}

export function sendingOf(key: string): Sending {
  return underWay.get(key) ?? new Sending(key);
}

/** Somebody else goes on, and has nothing to do with what the person before is still sending. */
export function abandonSending(key: string): void {
  underWay.delete(key);
}
