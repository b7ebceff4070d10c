import { bytesToBase64 } from './base64.ts';
import { type EventOptions, followEvents } from './follow-events.ts';
import type {
  LoggedEvent,
  ManagedEvent,
  ManagedList,
  ManagedSession,
  ManagedState,
  ManagedTranscript,
  UserEvent,
} from './managed-types.ts';
import type { RequestOptions } from './options.ts';
import type { Transport } from './transport.ts';
import type { Decision, Metadata, PermissionMode } from './types.ts';

export interface CreateManagedSession {
  metadata?: Metadata;
  /** Whether what the first turn needs is loaded in advance, in the background. Default true. */
  prewarm?: boolean;
  /** With an API key only. */
  permission_mode?: PermissionMode | null;
}

export interface EndUserQuery {
  /** For a token without a subject: the value that the sessions were created with. */
  end_user?: string;
}

/** Event-sourced sessions: post what the user does, follow the log. Works with an API key and with a session token. */
export class Managed {
  readonly #transport: Transport;
  readonly #prefix: string;

  constructor(transport: Transport, agentPath: string) {
    this.#transport = transport;
    this.#prefix = `${agentPath}/v1/managed-agents`;
  }

  create(session: CreateManagedSession = {}, options: RequestOptions = {}): Promise<ManagedSession> {
    return this.#transport.json('POST', `${this.#prefix}/sessions`, { ...options, body: session });
  }

  list(query: EndUserQuery = {}, options: RequestOptions = {}): Promise<ManagedList> {
    return this.#transport.json('GET', `${this.#prefix}/sessions`, { ...options, query: { ...query } });
  }

  /** The session with its whole log; `events` is the better way to keep up with it. */
  get(sessionId: string, options: RequestOptions = {}): Promise<ManagedState> {
    return this.#transport.json('GET', this.#path(sessionId), options);
  }

  transcript(sessionId: string, query: EndUserQuery = {}, options: RequestOptions = {}): Promise<ManagedTranscript> {
    return this.#transport.json('GET', `${this.#path(sessionId)}/transcript`, { ...options, query: { ...query } });
  }

  /** Loads in advance what the next turn needs; never required. */
  prewarm(sessionId: string, options: RequestOptions = {}): Promise<{ status: string }> {
    return this.#transport.json('POST', `${this.#path(sessionId)}/prewarm`, options);
  }

  /** Returns when the event is stored. The turn runs in the background; follow it with `events`. */
  post(sessionId: string, event: UserEvent, options: RequestOptions = {}): Promise<{ accepted: true }> {
    return this.#transport.json('POST', `${this.#path(sessionId)}/events`, { ...options, body: event });
  }

  send(sessionId: string, text: string, options: RequestOptions = {}): Promise<{ accepted: true }> {
    return this.post(sessionId, { type: 'user.message', text }, options);
  }

  confirm(sessionId: string, requestId: string, result: Decision, options: RequestOptions = {}): Promise<{ accepted: true }> {
    return this.post(sessionId, { type: 'user.tool_confirmation', request_id: requestId, result }, options);
  }

  interrupt(sessionId: string, options: RequestOptions = {}): Promise<{ accepted: true }> {
    return this.post(sessionId, { type: 'user.interrupt' }, options);
  }

  /** Attaches a file of at most 10 MiB to the next message; the agent finds it at the returned path. */
  async upload(
    sessionId: string,
    name: string,
    content: Blob | ArrayBuffer | Uint8Array | string,
    options: RequestOptions = {},
  ): Promise<{ accepted: true; path: string }> {
    const body = { name, content_base64: bytesToBase64(await bytesOf(content)) };
    return this.#transport.json('POST', `${this.#path(sessionId)}/files`, { ...options, body });
  }

  /**
   * The stored events after `after` (without it, from the first), then new ones as they are added, each once and in order.
   * It reconnects after dropped connections and restarts of the server. `until`, the signal or leaving the loop ends it.
   */
  events(sessionId: string, options?: EventOptions & { deltas?: false | undefined }): AsyncGenerator<LoggedEvent, void>;
  events(sessionId: string, options: EventOptions): AsyncGenerator<ManagedEvent, void>;
  events(sessionId: string, options: EventOptions = {}): AsyncGenerator<ManagedEvent, void> {
    return followEvents(this.#transport, `${this.#path(sessionId)}/events/stream`, options);
  }

  /** Calls a method of the agent's MCP servers, such as `tools/call`, through the session. Never retried: it might act twice. */
  mcp(sessionId: string, method: string, params: Record<string, unknown> = {}, options: RequestOptions = {}): Promise<unknown> {
    const headers = { 'x-svc-session': sessionId };
    return this.#transport.json('POST', `${this.#prefix}/mcp`, { ...options, headers, body: { method, params }, maxRetries: 0 });
  }

  #path(sessionId: string): string {
    return `${this.#prefix}/sessions/${encodeURIComponent(sessionId)}`;
  }
}

async function bytesOf(content: Blob | ArrayBuffer | Uint8Array | string): Promise<Uint8Array> {
  if (typeof content === 'string') return new TextEncoder().encode(content);
  if (content instanceof Uint8Array) return content;
  return new Uint8Array(content instanceof ArrayBuffer ? content : await content.arrayBuffer());
}
