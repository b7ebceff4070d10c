import { backoffMs } from '../../client/src/backoff.ts';
import { ConnectionError, type Decision, type Managed, NotFoundError, ParleyError, type RequestOptions } from '../../client/src/index.ts';
import { newKey } from '../../client/src/new-key.ts';
import { addEvent, type Conversation, emptyConversation } from './conversation.ts';
import type { Outgoing, Page, Sending } from './sending.ts';
import type { StoredText } from './stored-text.ts';

/** After this long without a response the person is told that the connection is lost; these requests take milliseconds. */
const silentMs = 5_000;

/** A message is not held up any longer than this by one of a former chat, which may wait for a token or a network that never comes. */
export const patienceMs = 2_000;

/** One conversation with an agent: starts or resumes a session, follows its log, and sends what the person does. */
export class Chat {
  conversation: Conversation = emptyConversation();
  outgoing: Outgoing[] = [];
  /** `loading` until the existing log of a resumed session has been read; `failed` after an error that the stream does not retry. */
  state: 'empty' | 'loading' | 'open' | 'lost' | 'failed' = 'empty';
  failure: string | undefined;
  /** A request could not be sent, or has had no response for `silentMs`. */
  isWaiting = false;
  readonly page: Page;
  readonly #managed: Managed;
  readonly #storedSessionId: StoredText;
  /** Text that a reload would lose: see `keep`. */
  readonly #unsent: StoredText;
  readonly #sending: Sending;
  readonly #metadata: Record<string, unknown>;
  #sessionId: string | undefined;
  #abort = new AbortController();
  /** Settled when the next message may be sent: the session is loaded, and every message before it was sent or given up. */
  #queue: Promise<void> = Promise.resolve();

  constructor(
    managed: Managed,
    sessionId: StoredText,
    unsent: StoredText,
    sending: Sending,
    metadata: Record<string, unknown>,
    page: Page,
  ) {
    this.#managed = managed;
    this.#storedSessionId = sessionId;
    this.#unsent = unsent;
    this.#sending = sending;
    this.#metadata = metadata;
    this.page = page;
  }

  /** What was written in this conversation and not sent. While a former chat is sending, the stored text has that too. */
  get draft(): string {
    return this.#sending.latest?.page.typed() ?? this.#unsent.read() ?? '';
  }

  /** Continues the conversation that this browser stored, or that a former chat is beginning. */
  resume(): void {
    const { ended } = this.#sending;
    const patience = new Promise((resolve) => setTimeout(resolve, patienceMs));
    this.#queue = Promise.all([this.#load(), Promise.race([ended, patience])]).then(() => {});
    void ended.then(() => {
      this.#queue = this.#queue.then(() => (this.#sessionId === undefined ? this.#load() : undefined));
    });
    this.#sending.latest = this;
  }

  /** Throws when the message could not be sent. It is then in the message field again. */
  async send(text: string, files: File[]): Promise<void> {
    const { signal } = this.#abort;
    const entry = { text, files: files.map(({ name }) => name) };
    this.outgoing.push(entry);
    const sent = this.#queue.then(() => this.#deliver(entry, files));
    this.#queue = sent.catch(() => {});
    this.#sending.begin(entry, this.#queue);
    this.keep();
    this.page.changed();
    try {
      await sent;
      this.failure = undefined;
      // The server answers again, so the stream of events can be opened again too.
      if (this.state === 'failed') this.reconnect();
    } catch (error) {
      // The event stream has already delivered the message: only the response to this request was lost.
      if (!this.outgoing.includes(entry) && !signal.aborted) return;
      this.outgoing = this.outgoing.filter((other) => other !== entry);
      this.#present.page.takeBack(text, files, error);
      throw error;
    } finally {
      this.#sending.end(entry);
      this.#present.keep();
      this.page.changed();
    }
  }

  /** Stores what a reload would lose: the messages that are not sent yet, followed by the text in the message field. */
  keep(): void {
    const texts = [...this.#sending.messages.map(({ text }) => text), this.page.typed()];
    const text = texts.filter((each) => each !== '').join('\n');
    if (text === '') this.#unsent.forget();
    else this.#unsent.write(text);
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
    this.#drop();
    // Also a conversation that another tab has begun meanwhile.
    this.#storedSessionId.forget();
    this.#reset();
  }

  /** For when somebody else goes on: what still waits is not sent, because that would be in their name. */
  leave(): void {
    this.#drop();
    this.close();
  }

  close(): void {
    this.#abort.abort();
  }

  /** After a reload, another conversation begins. One that another tab has stored meanwhile is not forgotten. */
  forget(): void {
    if (this.#storedSessionId.read() === this.#sessionId) this.#storedSessionId.forget();
  }

  /** The chat that is on the page, if this one is not any more. */
  get #present(): { readonly page: Page; keep(): void } {
    return (this.#abort.signal.aborted ? this.#sending.latest : undefined) ?? this;
  }

  #drop(): void {
    for (const entry of this.outgoing) this.#sending.end(entry);
    this.outgoing = [];
  }

  #reset(): void {
    // A chat that was closed stays so: nobody would end what it follows.
    if (!this.#abort.signal.aborted) {
      this.close();
      this.#abort = new AbortController();
    }
    this.forget();
    this.#sessionId = undefined;
    this.conversation = emptyConversation();
    this.failure = undefined;
    this.state = 'empty';
    this.page.changed();
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
      // The session was deleted, or belongs to somebody else: this message goes to the one that another tab has begun, or starts a new one.
      if (!(error instanceof NotFoundError) || sessionId === undefined) throw error;
      if (this.#sessionId === sessionId) this.#reset();
      await this.#deliver(entry, files);
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
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await this.#watchForSilence(request({ idempotencyKey }));
        } catch (error) {
          if (!(error instanceof ConnectionError) || signal.aborted || !this.outgoing.includes(entry)) throw error;
        }
        this.isWaiting = true;
        this.page.changed();
        await new Promise((resolve) => setTimeout(resolve, backoffMs(attempt, 8_000)));
      }
    } finally {
      this.isWaiting = false;
    }
  }

  /** A network can fail silently. This tells the person long before the request itself times out. */
  async #watchForSilence<Answer>(request: Promise<Answer>): Promise<Answer> {
    const timer = setTimeout(() => {
      this.isWaiting = true;
      this.page.changed();
    }, silentMs);
    try {
      return await request;
    } finally {
      clearTimeout(timer);
      this.isWaiting = false;
      this.page.changed();
    }
  }

  async #begin(entry: Outgoing): Promise<string> {
    const created = await this.#sendReliably(entry, (options) => this.#managed.create({ metadata: this.#metadata }, options));
    // Another chat of this page, or another tab, may have been faster.
    const id = this.#storedSessionId.read() ?? created.id;
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
      this.page.changed();
    };
    try {
      // The stream will meet the same failure, and it knows which ones to retry.
      await loaded?.catch(() => {
        if (!signal.aborted) this.state = 'open';
      });
      const open = (inView: AbortSignal) =>
        this.#managed.events(sessionId, { after: this.conversation.lastSeq, deltas: true, signal: inView, onConnection });
      const onLeave = () => {
        // The answer that is being written is sent again from its beginning.
        this.conversation.draft = undefined;
        onConnection('open');
      };
      for await (const event of this.page.follow(open, signal, onLeave)) {
        addEvent(this.conversation, event);
        if (event.type === 'user.message') this.#removeOutgoing(event.text);
        this.page.changed();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof NotFoundError) return this.#reset();
      this.state = 'failed';
      this.failure = reasonOf(error);
      this.page.changed();
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
    this.page.changed();
  }

  #removeOutgoing(text: string): void {
    const index = this.outgoing.findIndex((entry) => entry.text === text);
    if (index >= 0) for (const entry of this.outgoing.splice(index, 1)) this.#sending.end(entry);
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof ParleyError || error instanceof TypeError ? error.message : 'Something went wrong';
}
