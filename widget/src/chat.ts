import { ConnectionError, type Decision, type Managed, NotFoundError, ParleyError, type RequestOptions } from '../../client/src/index.ts';
import { newKey } from '../../client/src/new-key.ts';
import { addEvent, type Conversation, emptyConversation } from './conversation.ts';
import type { Remembered } from './remembered.ts';

/** Messages that were typed and are not in the log yet: they wait for their turn, or for the network. */
export interface Outgoing {
  text: string;
  files: string[];
  /** The server has it. */
  isSent: boolean;
}

/** How long an answer may take before the person is told that there is none. All that is asked for here takes a moment. */
const silentMs = 5_000;

/** One conversation with the server: begins or resumes a session, follows its log, and sends what the person does. */
export class Chat {
  conversation: Conversation = emptyConversation();
  outgoing: Outgoing[] = [];
  /** `loading` until the log so far is there. */
  state: 'empty' | 'loading' | 'open' | 'lost' | 'failed' = 'empty';
  failure: string | undefined;
  /** What the person did could not be sent, or is not answered, and waits for the network. */
  isWaiting = false;
  readonly #managed: Managed;
  /** The text that is being written, kept over a reload. */
  readonly draft: Remembered;
  readonly #remembered: Remembered;
  readonly #metadata: Record<string, unknown>;
  readonly #changed: () => void;
  #sessionId: string | undefined;
  #following = new AbortController();
  /** What the next message waits for: its conversation, and the messages before it. */
  #before: Promise<void> = Promise.resolve();

  constructor(managed: Managed, remembered: Remembered, draft: Remembered, metadata: Record<string, unknown>, changed: () => void) {
    this.#managed = managed;
    this.#remembered = remembered;
    this.draft = draft;
    this.#metadata = metadata;
    this.#changed = changed;
  }

  get sessionId(): string | undefined {
    return this.#sessionId;
  }

  /** Goes on with the conversation that this browser had, if it had one. */
  resume(): void {
    this.#before = this.#load();
  }

  /** Throws when it could not be sent; the text is then still the caller's. */
  async send(text: string, files: File[]): Promise<void> {
    const { signal } = this.#following;
    const entry = { text, files: files.map(({ name }) => name), isSent: false };
    this.outgoing.push(entry);
    this.#changed();
    const sent = this.#before.then(() => this.#deliver(entry, files));
    this.#before = sent.catch(() => {});
    try {
      await sent;
      entry.isSent = true;
      this.failure = undefined;
      // What made the stream fail has passed.
      if (this.state === 'failed') this.reconnect();
    } catch (error) {
      // It is in the log by now: only the answer was lost.
      if (!this.outgoing.includes(entry) && !signal.aborted) return;
      this.outgoing = this.outgoing.filter((other) => other !== entry);
      throw error;
    } finally {
      this.#changed();
    }
  }

  /** Keeps what only this page has, and a reload would lose: what is not sent yet, and then what is being written. */
  keep(writing: string): void {
    const unsent = this.outgoing.filter(({ isSent }) => !isSent).map(({ text }) => text);
    const text = [...unsent, writing].filter((each) => each !== '').join('\n');
    if (text === '') this.draft.forget();
    else this.draft.write(text);
  }

  async confirm(requestId: string, decision: Decision): Promise<void> {
    if (this.#sessionId !== undefined) await this.#watch(this.#managed.confirm(this.#sessionId, requestId, decision));
  }

  async interrupt(): Promise<void> {
    if (this.#sessionId !== undefined) await this.#watch(this.#managed.interrupt(this.#sessionId));
  }

  /** Tries again after a failure. Whether there is a connection is told when there is none. */
  reconnect(): void {
    this.failure = undefined;
    if (this.#sessionId === undefined) return;
    this.state = 'open';
    void this.#follow(this.#sessionId);
  }

  /** Leaves this conversation; the next message begins another. */
  startOver(): void {
    this.outgoing = [];
    this.#leave();
  }

  close(): void {
    this.#following.abort();
  }

  #leave(): void {
    this.close();
    this.#following = new AbortController();
    this.#remembered.forget();
    this.#sessionId = undefined;
    this.conversation = emptyConversation();
    this.failure = undefined;
    this.state = 'empty';
    this.#changed();
  }

  async #deliver(entry: Outgoing, files: File[]): Promise<void> {
    // The person has left the conversation that it was meant for.
    if (!this.outgoing.includes(entry)) return;
    // Another tab may have begun one meanwhile. A second one would take its place, and a reload would no longer find the first.
    if (this.#sessionId === undefined) await this.#load();
    const tried = this.#sessionId;
    try {
      await this.#post(tried ?? (await this.#begin(entry)), entry, files);
    } catch (error) {
      // The remembered conversation is gone, or somebody else's: this message begins a new one.
      if (!(error instanceof NotFoundError) || tried === undefined) throw error;
      if (this.#sessionId === tried) this.#leave();
      await this.#post(this.#sessionId ?? (await this.#begin(entry)), entry, files);
    }
  }

  async #post(sessionId: string, entry: Outgoing, files: File[]): Promise<void> {
    // Given up at some time: one that is too large for this connection would never arrive.
    for (const file of files) await this.#managed.upload(sessionId, file.name, file);
    await this.#insist(entry, (options) => this.#managed.send(sessionId, entry.text, options));
  }

  /** Tries for as long as there is no connection, and somebody waits for it: under one key, so that it arrives once. */
  async #insist<Answer>(entry: Outgoing, request: (options: RequestOptions) => Promise<Answer>): Promise<Answer> {
    const { signal } = this.#following;
    const idempotencyKey = newKey();
    try {
      for (;;) {
        try {
          return await this.#watch(request({ idempotencyKey }));
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

  /** A network may be gone without a word: whoever waits is told so long before the request is given up. */
  async #watch<Answer>(asked: Promise<Answer>): Promise<Answer> {
    const timer = setTimeout(() => {
      this.isWaiting = true;
      this.#changed();
    }, silentMs);
    try {
      return await asked;
    } finally {
      clearTimeout(timer);
      this.isWaiting = false;
      this.#changed();
    }
  }

  async #begin(entry: Outgoing): Promise<string> {
    const { id } = await this.#insist(entry, (options) => this.#managed.create({ metadata: this.#metadata }, options));
    this.#sessionId = id;
    this.#remembered.write(id);
    this.state = 'open';
    void this.#follow(id);
    return id;
  }

  async #follow(sessionId: string, loaded?: Promise<void>): Promise<void> {
    const { signal } = this.#following;
    const onConnection = (state: 'open' | 'lost') => {
      if (state === 'lost') this.state = 'lost';
      else if (this.state === 'lost') this.state = 'open';
      this.#changed();
    };
    try {
      // Whatever it was, the stream is told the same, and knows what to try again.
      await loaded?.catch(() => {
        if (!signal.aborted) this.state = 'open';
      });
      const after = this.conversation.lastSeq;
      for await (const event of this.#managed.events(sessionId, { after, deltas: true, signal, onConnection })) {
        addEvent(this.conversation, event);
        if (event.type === 'user.message') this.#arrived(event.text);
        this.#changed();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof NotFoundError) return this.#leave();
      this.state = 'failed';
      this.failure = reasonOf(error);
      this.#changed();
    }
  }

  async #load(): Promise<void> {
    const sessionId = this.#remembered.read();
    if (sessionId === undefined) return;
    this.#sessionId = sessionId;
    this.state = 'loading';
    const loaded = this.#catchUp(sessionId);
    void this.#follow(sessionId, loaded);
    await loaded.catch(() => {});
  }

  /** A resumed conversation is shown at once and whole, not told again piece by piece. */
  async #catchUp(sessionId: string): Promise<void> {
    const { events } = await this.#managed.get(sessionId, { signal: this.#following.signal });
    for (const event of events) addEvent(this.conversation, event);
    this.state = 'open';
    this.#changed();
  }

  #arrived(text: string): void {
    const index = this.outgoing.findIndex((entry) => entry.text === text);
    if (index >= 0) this.outgoing.splice(index, 1);
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof ParleyError || error instanceof TypeError ? error.message : 'Something went wrong';
}
