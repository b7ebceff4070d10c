import { html, LitElement, nothing, type PropertyValues, type TemplateResult } from 'lit';
import type { Decision } from '../../client/src/index.ts';
import { attributes } from './attributes.ts';
import { type Chat, reasonOf } from './chat.ts';
import { messagesView, statusView } from './chat-views.ts';
import { composerView } from './composer.ts';
import { connect, type TokenProvider, type Visitor } from './connect.ts';
import { openQuestion } from './conversation.ts';
import { Draft } from './draft.ts';
import { fileDrop, maxFileBytes } from './file-drop.ts';
import { icons } from './icons.ts';
import { followInView } from './in-view.ts';
import { type Labels, labels } from './labels.ts';
import type { Page } from './sending.ts';
import type { StorageKind } from './stored-text.ts';
import { styles } from './styles.ts';

/** `<parley-chat org="demo" agent="assistant" token-url="/token">`: a chat with an agent, for any web page. */
export class ParleyChat extends LitElement {
  static override styles = styles;
  static override properties = attributes;

  declare baseUrl: string | undefined;
  declare org: string | undefined;
  declare agent: string | undefined;
  declare token: string | undefined;
  declare tokenUrl: string | undefined;
  /** Called for a session token at the start, before one expires, and when one is refused. */
  declare tokenProvider: TokenProvider | undefined;
  declare endUser: string | undefined;
  declare heading: string | undefined;
  declare placeholder: string | undefined;
  declare greeting: string | undefined;
  declare storage: StorageKind | undefined;
  declare showTools: boolean | undefined;
  declare noUploads: boolean | undefined;
  declare noApprovals: boolean | undefined;
  declare floating: boolean | undefined;
  declare open: boolean | undefined;
  declare labels: Partial<Labels> | undefined;

  #chat: Chat | undefined;
  #visitor: Visitor = {};
  readonly #draft = new Draft();
  #problem: string | undefined;
  #wasLost = false;
  /** Id of the approval request whose answer is being sent. */
  #answering: string | undefined;
  #dragging = false;
  /** Follows the end of the log until the person scrolls away from it. */
  #atEnd = true;
  /** Id of the last approval request that was shown to the person. */
  #shownRequest: string | undefined;
  readonly #drop = fileDrop(
    () => !this.noUploads,
    (isOver) => {
      this.#dragging = isOver;
      this.requestUpdate();
    },
    (files) => this.#addFiles(files),
  );

  readonly #page: Page = {
    typed: () => this.#draft.text,
    takeBack: (text, files, error) => {
      this.#draft.takeBack(text, files);
      this.#chat?.keep();
      this.#problem = reasonOf(error);
      this.requestUpdate();
    },
    changed: () => this.requestUpdate(),
    follow: followInView,
  };

  readonly #onNetworkChange = () => {
    this.#problem = undefined;
    if (navigator.onLine && this.#chat?.state === 'failed') this.#chat.reconnect();
    this.requestUpdate();
  };

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    for (const change of ['online', 'offline']) window.removeEventListener(change, this.#onNetworkChange);
    this.#chat?.close();
    this.#chat = undefined;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    for (const change of ['online', 'offline']) window.addEventListener(change, this.#onNetworkChange);
    this.requestUpdate();
  }

  /** Renders at most once per frame, however many events come. A hidden tab has no frames: there, the timer ends the wait. */
  override async scheduleUpdate(): Promise<void> {
    await new Promise<void>((resolve) => {
      requestAnimationFrame(() => resolve());
      setTimeout(resolve, 100);
    });
    super.scheduleUpdate();
  }

  override willUpdate(changed: PropertyValues<this>): void {
    // The connection is back, so what is said to have failed without it can be tried again.
    if (this.#wasLost && this.#chat?.state !== 'lost') this.#problem = undefined;
    this.#wasLost = this.#chat?.state === 'lost';
    const needsNewChat = (['baseUrl', 'org', 'agent', 'endUser', 'storage', 'token', 'tokenUrl', 'tokenProvider'] as const).some((name) =>
      changed.has(name),
    );
    if (this.#chat !== undefined && !needsNewChat) return;
    // Whoever had no id before has only signed in.
    if (changed.get('endUser') !== undefined) this.#welcome({});
    this.#chat?.close();
    this.#chat = undefined;
    if (!this.isConnected || !this.org || !this.agent) return;
    this.#chat = connect(this, this.#visitor, this.#page, (next) => this.#welcome(next));
    this.#draft.text ||= this.#chat?.draft ?? '';
    this.#chat?.resume();
  }

  override updated(): void {
    const log = this.renderRoot.querySelector('.log');
    if (log !== null && this.#atEnd) log.scrollTop = log.scrollHeight;
    this.#showQuestion();
  }

  override render(): TemplateResult {
    if (!this.floating) return this.#panel(false);
    const words = this.#labels;
    return html`${this.#panel(!this.open)}
      <button class="launcher" part="launcher" type="button" aria-expanded=${this.open ? 'true' : 'false'} aria-controls="panel" aria-label=${this.open ? words.close : words.open} @click=${this.#toggle}>
        ${this.open ? icons.close : icons.chat}
      </button>`;
  }

  #panel(closed: boolean): TemplateResult {
    const words = this.#labels;
    const chat = this.#chat;
    const problem = this.#problem ?? (chat === undefined ? this.#missing : undefined);
    const decide = this.noApprovals ? undefined : (id: string, decision: Decision) => void this.#decide(id, decision);
    const actions = { labels: words, showTools: this.showTools ?? false, answering: this.#answering, decide };
    return html`<section id="panel" class="panel ${this.#dragging ? 'over' : ''}" part="panel" ?hidden=${closed} aria-label=${words.heading}
        @keydown=${this.#onKey} @dragover=${this.#drop.over} @dragleave=${this.#drop.leave} @drop=${this.#drop.drop}>
      <header part="header">
        <h2>${words.heading}</h2>
        <button class="icon" type="button" title=${words.startOver} aria-label=${words.startOver} ?disabled=${chat === undefined || chat.state === 'empty'} @click=${this.startOver}>${icons.startOver}</button>
      </header>
      <div class="log" part="log" role="log" tabindex="0" aria-label=${words.heading} aria-busy=${chat?.state === 'loading' ? 'true' : 'false'} @scroll=${this.#onScroll}>
        ${chat === undefined ? nothing : messagesView(chat, this.greeting, actions)}
      </div>
      <p class="status" part="status" role="status">${statusView(chat, problem, words, () => this.#reconnect())}</p>
      <div class="hidden" role="alert">${this.#alert()}</div>
      ${composerView({
        labels: words,
        text: this.#draft.text,
        files: this.#draft.files,
        running: chat?.conversation.running ?? false,
        uploads: !this.noUploads,
        disabled: chat === undefined,
        onText: (text) => this.#write(text),
        onFiles: (files) => this.#addFiles(files),
        onRemove: (file) => {
          this.#draft.files = this.#draft.files.filter((other) => other !== file);
          this.requestUpdate();
        },
        onSend: () => this.#send(),
        onStop: () => void this.#attempt(chat?.interrupt()),
      })}
    </section>`;
  }

  #alert(): string {
    const question = this.#chat && openQuestion(this.#chat.conversation);
    return question === undefined || this.noApprovals ? '' : `${this.#labels.approval}: ${question.message}`;
  }

  /** Why there is no chat. */
  get #missing(): string {
    return this.org && this.agent ? this.#labels.tokenMissing : this.#labels.agentMissing;
  }

  get #labels(): Labels {
    const { heading, placeholder } = this;
    return {
      ...labels,
      ...this.labels,
      ...(heading === undefined ? {} : { heading }),
      ...(placeholder === undefined ? {} : { placeholder }),
    };
  }

  /** Sends a message as if the person had written it. Throws when it could not be sent; it is then in the message field. */
  async send(text: string): Promise<void> {
    // An element that was never on a page would wait for ever.
    if (!this.isConnected) throw new Error('This chat is not on the page');
    // Of what was just set, such as the token of somebody else, the present chat knows nothing.
    await this.updateComplete;
    if (this.#chat === undefined) throw new Error(this.#missing);
    await this.#chat.send(text, []);
  }

  /** Leaves this conversation; the next message starts a new one. */
  startOver(): void {
    this.#problem = undefined;
    this.#chat?.startOver();
    this.#focusComposer();
  }

  #send(): void {
    const [text, files] = [this.#draft.text.trim() || this.#draft.files.map(({ name }) => name).join(', '), this.#draft.files];
    if (this.#chat === undefined || text === '') return;
    this.#draft.clear();
    this.#problem = undefined;
    this.#atEnd = true;
    // What went wrong is said where the text is taken back.
    this.#chat.send(text, files).catch(() => {});
  }

  /** Somebody else is here: nothing of what the person before wrote is theirs to see, or to send. */
  #welcome(next: Visitor): void {
    this.#visitor.hasLeft = true;
    this.#visitor = next;
    this.#chat?.leave();
    this.#chat = undefined;
    this.#draft.clear();
    this.#problem = undefined;
    this.requestUpdate();
  }

  #write(text: string): void {
    this.#draft.text = text;
    this.#chat?.keep();
    this.requestUpdate();
  }

  async #decide(requestId: string, decision: Decision): Promise<void> {
    this.#answering = requestId;
    this.requestUpdate();
    this.#focusComposer();
    await this.#attempt(this.#chat?.confirm(requestId, decision));
    this.#answering = undefined;
    this.requestUpdate();
  }

  async #attempt(action: Promise<void> | undefined): Promise<void> {
    const visitor = this.#visitor;
    const problem = await action?.then(() => undefined, reasonOf);
    if (visitor.hasLeft) return;
    this.#problem = problem;
    this.requestUpdate();
  }

  #reconnect(): void {
    this.#chat?.reconnect();
    this.requestUpdate();
  }

  /** Moves the focus from an empty message field to a new question; whoever is typing is not interrupted. */
  #showQuestion(): void {
    const question = this.#chat && openQuestion(this.#chat.conversation);
    if (question === undefined || question.request_id === this.#shownRequest) return;
    this.#shownRequest = question.request_id;
    const focused = this.shadowRoot?.activeElement;
    if (focused?.tagName === 'TEXTAREA' && this.#draft.text === '')
      this.renderRoot.querySelector<HTMLElement>(`[data-request="${CSS.escape(question.request_id)}"]`)?.focus();
  }

  #focusComposer(): void {
    this.renderRoot.querySelector('textarea')?.focus();
  }

  #addFiles(files: File[]): void {
    const tooLarge = files.find((file) => file.size > maxFileBytes);
    this.#problem = tooLarge === undefined ? undefined : `${tooLarge.name} ${this.#labels.tooLarge}`;
    this.#draft.attach(files.filter((file) => file.size <= maxFileBytes));
    this.requestUpdate();
  }

  #toggle(): void {
    this.open = !this.open;
    if (this.open) void this.updateComplete.then(() => this.#focusComposer());
  }

  #onKey(event: KeyboardEvent): void {
    // The Escape that ends the composition of an input method is not meant for the panel. In Safari only its code, 229, tells it apart.
    const isComposing = event.isComposing || event.keyCode === 229;
    if (event.key !== 'Escape' || isComposing || !this.floating || !this.open) return;
    this.open = false;
    this.renderRoot.querySelector<HTMLElement>('.launcher')?.focus();
  }

  #onScroll(event: Event): void {
    if (!(event.currentTarget instanceof HTMLElement)) return;
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    this.#atEnd = scrollHeight - scrollTop - clientHeight < 40;
  }
}

if (customElements.get('parley-chat') === undefined) customElements.define('parley-chat', ParleyChat);
