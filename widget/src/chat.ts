import { ConnectionError, type Decision, type Managed, NotFoundError, ParleyError, type RequestOptions } from '../../client/src/index.ts';
import { newKey } from '../../client/src/new-key.ts';
import { addEvent, type Conversation, emptyConversation } from './conversation.ts';
import type { StoredText } from './stored-text.ts';

/** A message that was typed and is not in the log yet: it waits for the messages before it, or for the network. */
export interface Outgoing {
  text: string;
  files: string[];
  /** Whether the server has accepted it. */
  isSent: boolean;
}

/** After this long without a response the person is told that the connection is lost; these requests take milliseconds. */
const silentMs = 5_000;

/** One conversation with an agent: starts or resumes a session, follows its log, and sends what the person does. */
export class Chat {
  conversation: Conversation = emptyConversation();
  outgoing: Outgoing[] = [];
  /** `loading` until the existing log of a resumed session has been read; `failed` after an error that the stream does not retry. */
  state: 'empty' | 'loading' | 'open' | 'lost' | 'failed' = 'empty';
  failure: string | undefined;
  /** A request could not be sent, or has had no response for `silentMs`. */
  isWaiting = false;
  readonly #managed: Managed;
  /** Text that a reload would lose: see `keep`. */
  readonly unsent: StoredText;
  readonly #storedSessionId: StoredText;
  readonly #metadata: Record<string, unknown>;
  readonly #changed: () => void;
  #sessionId: string | undefined;
  #abort = new AbortController();
  /** Settled when the next message may be sent: the session is loaded, and every message before it was sent or given up. */
  #queue: Promise<void> = Promise.resolve();

  constructor(managed: Managed, sessionId: StoredText, unsent: StoredText, metadata: Record<string, unknown>, changed: () => void) {
    this.#managed = managed;
    this.#storedSessionId = sessionId;
    this.unsent = unsent;
    this.#metadata = metadata;
    this.#changed = changed;
  }

  /** Continues the conversation that this browser stored, if there is one and none has begun here. */
  resume(): void {
    if (this.#sessionId === undefined) this.#queue = this.#load();
  }

  /** Throws when the message could not be sent. It is then dropped here, and the caller has to keep the text. */
  async send(text: string, files: File[]): Promise<void> {
    const { signal } = this.#abort;
    const entry = { text, files: files.map(({ name }) => name), isSent: false };
    this.outgoing.push(entry);
    this.#changed();
    const sent = this.#queue.then(() => this.#deliver(entry, files));
    this.#queue = sent.catch(() => {});
    try {
      await sent;
      entry.isSent = true;
      this.failure = undefined;
      // The server answers again, so the stream of events can be opened again too.
      if (this.state === 'failed') this.reconnect();
    } catch (error) {
      // The event stream has already delivered the message: only the response to this request was lost.
      if (!this.outgoing.includes(entry) && !signal.aborted) return;
      this.outgoing = this.outgoing.filter((other) => other !== entry);
      throw error;
    } finally {
      this.#changed();
    }
  }

  /** Stores what a reload would lose: the messages that are not sent yet, followed by the text in the message field. */
  keep(typed: string): void {
    const waiting = this.outgoing.filter(({ isSent }) => !isSent).map(({ text }) => text);
    const text = [...waiting, typed].filter((each) => each !== '').join('\n');
    if (text === '') this.unsent.forget();
    else this.unsent.write(text);
  }

  async confirm(requestId: string, decision: Decision): Promise<void> {
    if (this.#sessionId !== undefined) await this.#watchForSilence(this.#managed.confirm(this.#sessionId, requestId, decision));
  }

  async interrupt(): Promise<void> {
    if (this.#sessionId !== undefined) await this.#watchForSilence(this.#managed.interrupt(this.#sessionId));
  }

  /**
   * Opens the event stream again after a failure. The state is `open` at once; the stream reports it when it is lost. Asked again
   * before that is drawn, it does nothing: a second stream would show every answer twice.
   */
  reconnect(): void {
    if (this.#sessionId === undefined || this.state !== 'failed') return;
    this.failure = undefined;
    this.state = 'open';
    void this.#follow(this.#sessionId);
  }

  /** Leaves this conversation; the next message starts a new one. */
  startOver(): void {
    this.outgoing = [];
    this.#reset();
  }

  /** For when somebody else goes on: what still waits is not sent, because that would be in their name. */
  leave(): void {
    this.outgoing = [];
    this.close();
  }

  close(): void {
    this.#abort.abort();
  }

  #reset(): void {
    this.close();
    this.#abort = new AbortController();
    this.#storedSessionId.forget();
    this.#sessionId = undefined;
    this.conversation = emptyConversation();
    this.failure = undefined;
    this.state = 'empty';
    this.#changed();
  }

  async #deliver(entry: Outgoing, files: File[]): Promise<void> {
    // `startOver` has dropped the message while it waited in the queue.
    if (!this.outgoing.includes(entry)) return;
    // Another tab may have started a session meanwhile. A second one would overwrite its stored id, and a reload lose the first.
    if (this.#sessionId === undefined) await this.#load();
    const sessionId = this.#sessionId;
    try {
      await this.#post(sessionId ?? (await this.#begin(entry)), entry, files);
    } catch (error) {
      // The session was deleted, or belongs to somebody else: this message starts a new one.
      if (!(error instanceof NotFoundError) || sessionId === undefined) throw error;
      if (this.#sessionId === sessionId) this.#reset();
      await this.#post(this.#sessionId ?? (await this.#begin(entry)), entry, files);
    }
  }

  async #post(sessionId: string, entry: Outgoing, files: File[]): Promise<void> {
    // An upload is not repeated without end, as the message is: a file too large for this connection would never arrive.
    for (const file of files) if (this.outgoing.includes(entry)) await this.#managed.upload(sessionId, file.name, file);
    // `startOver` has dropped it meanwhile.
    if (!this.outgoing.includes(entry)) return;
    await this.#sendReliably(entry, (options) => this.#managed.send(sessionId, entry.text, options));
  }

  /** Repeats a request while there is no connection and its message still waits. The idempotency key makes that harmless. */
  async #sendReliably<Answer>(entry: Outgoing, request: (options: RequestOptions) => Promise<Answer>): Promise<Answer> {
    const { signal } = this.#abort;
    const idempotencyKey = newKey();
    try {
      for (;;) {
        try {
          return await this.#watchForSilence(request({ idempotencyKey }));
        } catch (error) {
          if (!(error instanceof ConnectionError) || signal.aborted || !this.outgoing.includes(entry)) throw error;
        }
        this.isWaiting = true;
        this.#changed();
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
    } finally {
      this.isWaiting = false;
    }
  }

  /** A network can fail silently. This tells the person long before the request itself times out. */
  async #watchForSilence<Answer>(request: Promise<Answer>): Promise<Answer> {
    const timer = setTimeout(() => {
      this.isWaiting = true;
      this.#changed();
    }, silentMs);
    try {
      return await request;
    } finally {
      clearTimeout(timer);
      this.isWaiting = false;
      this.#changed();
    }
  }

  async #begin(entry: Outgoing): Promise<string> {
    const { id } = await this.#sendReliably(entry, (options) => this.#managed.create({ metadata: this.#metadata }, options));
    this.#sessionId = id;
    this.#storedSessionId.write(id);
    this.state = 'open';
    void this.#follow(id);
    return id;
  }

  async #follow(sessionId: string, loaded?: Promise<void>): Promise<void> {
    const { signal } = this.#abort;
    const onConnection = (state: 'open' | 'lost') => {
      if (state === 'lost') this.state = 'lost';
      else if (this.state === 'lost') this.state = 'open';
      this.#changed();
    };
    try {
      // The stream will meet the same failure, and it knows which ones to retry.
      await loaded?.catch(() => {
        if (!signal.aborted) this.state = 'open';
      });
      const after = this.conversation.lastSeq;
      for await (const event of this.#managed.events(sessionId, { after, deltas: true, signal, onConnection })) {
        addEvent(this.conversation, event);
        if (event.type === 'user.message') this.#removeOutgoing(event.text);
        this.#changed();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof NotFoundError) return this.#reset();
      this.state = 'failed';
      this.failure = reasonOf(error);
      this.#changed();
    }
  }

  async #load(): Promise<void> {
    const sessionId = this.#storedSessionId.read();
    if (sessionId === undefined) return;
    this.#sessionId = sessionId;
    this.state = 'loading';
    const loaded = this.#catchUp(sessionId);
    void this.#follow(sessionId, loaded);
    await loaded.catch(() => {});
  }

  /** Reads the whole log with one request, so that a resumed conversation appears at once instead of event by event. */
  async #catchUp(sessionId: string): Promise<void> {
    const { events } = await this.#managed.get(sessionId, { signal: this.#abort.signal });
    for (const event of events) addEvent(this.conversation, event);
    this.state = 'open';
    this.#changed();
  }

  #removeOutgoing(text: string): void {
    const index = this.outgoing.findIndex((entry) => entry.text === text);
    if (index >= 0) this.outgoing.splice(index, 1);
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof ParleyError || error instanceof TypeError ? error.message : 'Something went wrong';
}
