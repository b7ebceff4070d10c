import { agentPath } from './agent-path.ts';
import type { RequestOptions } from './options.ts';
import { streamTurn } from './stream-turn.ts';
import type { Transport } from './transport.ts';
import type { Decision, Metadata, PermissionMode, Reply, Resolution, Session, SessionList, Transcript, TurnEvent } from './types.ts';

export interface CreateSession {
  metadata?: Metadata;
  /** Resumes the session with this id, or creates it. */
  session_id?: string;
  permission_mode?: PermissionMode | null;
}

export interface SendMessage {
  text: string;
  /** Routes the turn to a named sub-agent. */
  agent?: string;
  participant_name?: string;
  participant_type?: 'human' | 'ai';
  /** Also returns the model's reasoning. */
  thinking?: boolean;
}

export interface ListSessions {
  /** Only those with activity in the last 15 minutes. */
  active?: boolean;
  page?: number;
  per_page?: number;
}

/** Sessions of the native API. `list`, `transcript` and `stop` need a client with an `agent`. */
export class Sessions {
  readonly #transport: Transport;
  readonly #prefix: string;

  constructor(transport: Transport, agent: string | undefined) {
    this.#transport = transport;
    this.#prefix = sessionsPath(agent);
  }

  create(session: CreateSession = {}, options: RequestOptions = {}): Promise<Session> {
    return this.#transport.json('POST', this.#prefix, { ...options, body: session });
  }

  get(sessionId: string, options: RequestOptions = {}): Promise<Session> {
    return this.#transport.json('GET', this.#path(sessionId), options);
  }

  list(query: ListSessions = {}, options: RequestOptions = {}): Promise<SessionList> {
    return this.#transport.json('GET', this.#agentPath(), { ...options, query: { ...query } });
  }

  transcript(sessionId: string, options: RequestOptions = {}): Promise<Transcript> {
    return this.#transport.json('GET', `${this.#agentPath(sessionId)}/messages`, options);
  }

  /** Interrupts the running turn; the session then refuses messages, until `create` with its id resumes it. */
  stop(sessionId: string, options: RequestOptions = {}): Promise<void> {
    return this.#transport.json('DELETE', this.#agentPath(sessionId), options);
  }

  #path(sessionId: string): string {
    return `${this.#prefix}/${encodeURIComponent(sessionId)}`;
  }

  #agentPath(sessionId?: string): string {
    if (this.#prefix === '/v1/sessions') throw new TypeError("This call belongs to an agent: client.agent('org/agent').sessions");
    return sessionId === undefined ? this.#prefix : this.#path(sessionId);
  }
}

/** Turns of the native API. */
export class Messages {
  readonly #transport: Transport;
  readonly #prefix: string;

  constructor(transport: Transport, agent: string | undefined) {
    this.#transport = transport;
    this.#prefix = sessionsPath(agent);
  }

  /** Runs a turn and returns its complete answer. */
  send(sessionId: string, message: string | SendMessage, options: RequestOptions = {}): Promise<Reply> {
    return this.#transport.json('POST', this.#path(sessionId), { ...options, body: bodyOf(message, false) });
  }

  /** Runs a turn and yields its events as they happen, until it ends or asks for permission. Continues after a broken connection. */
  stream(sessionId: string, message: string | SendMessage, options: RequestOptions = {}): AsyncGenerator<TurnEvent, void> {
    return streamTurn(this.#transport, this.#path(sessionId), bodyOf(message, true), options);
  }

  #path(sessionId: string): string {
    return `${this.#prefix}/${encodeURIComponent(sessionId)}/messages`;
  }
}

/** Answers turns that wait for permission. */
export class Inputs {
  readonly #transport: Transport;
  readonly #prefix: string;

  constructor(transport: Transport, agent: string | undefined) {
    this.#transport = transport;
    this.#prefix = sessionsPath(agent);
  }

  /** Returns the rest of the turn, until it ends or asks again. */
  resolve(sessionId: string, requestId: string, decision: Decision, options: RequestOptions = {}): Promise<Resolution> {
    const path = `${this.#prefix}/${encodeURIComponent(sessionId)}/inputs/${encodeURIComponent(requestId)}`;
    return this.#transport.json('PUT', path, { ...options, body: { decision } });
  }
}

function bodyOf(message: string | SendMessage, stream: boolean): SendMessage & { stream: boolean } {
  return { ...(typeof message === 'string' ? { text: message } : message), stream };
}

function sessionsPath(agent: string | undefined): string {
  return agent === undefined ? '/v1/sessions' : `${agentPath(agent)}/v1/sessions`;
}
