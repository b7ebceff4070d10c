import { setTimeout as sleep } from 'node:timers/promises';
import {
  Client,
  isJSONRPCErrorResponse,
  type JSONRPCErrorResponse,
  type JsonSchemaValidator,
  ProtocolError,
  type RequestId,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { causesOf, networkReason, ServiceError } from '../errors.ts';
import type { McpServerConfig } from '../release-config.ts';
import { hideSecret } from '../text/hide-secret.ts';
import { parseJson } from '../text/json.ts';
import { hasTooManyValues, limitAnswer, maxResumptions, maxUnasked, maxValues } from './mcp-limits.ts';

/** The guarded fetch for upstreams. */
export type McpFetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** A server, and its credential in plain text, which is sent in one header and must not appear anywhere else. */
export interface McpTarget {
  server: McpServerConfig;
  credential: string | undefined;
}

export interface McpClient {
  client: Client;
  /** Ends the session at the server too, if it keeps one. Never throws. */
  close(): Promise<void>;
}

/** Connects to a server. What it throws is for `describeFailure`. */
export async function openMcpClient({ server, credential }: McpTarget, fetch: McpFetch, signal?: AbortSignal): Promise<McpClient> {
  const headers = credential === undefined ? {} : { authorization: `Bearer ${credential}` };
  const transport = new LimitedTransport(new URL(server.url), {
    fetch: limitedFetch(fetch),
    requestInit: { headers },
    reconnectionScheduler: resumeLater,
  });
  const client = new Client(
    { name: 'parley', version: '1' },
    { versionNegotiation: { mode: 'auto' }, jsonSchemaValidator: acceptAnything },
  );
  // The failure of a request rejects its promise; other errors do not matter.
  client.onerror = () => {};
  const close = async () => {
    // If the server does not answer in time, the connection is closed without ending the session there.
    await Promise.race([transport.terminateSession().catch(() => {}), sleep(endSessionMs, undefined, { ref: false })]);
    await client.close().catch(() => {});
  };
  try {
    // The client ignores a signal while it negotiates the protocol version.
    await unlessAborted(client.connect(transport, { timeout: connectTimeoutMs }), signal);
  } catch (error) {
    await client.close().catch(() => {});
    await transport.close().catch(() => {});
    throw error;
  }
  return { client, close };
}

/** Rejects as soon as the signal aborts. What the promise stands for goes on. */
export function unlessAborted<Value>(promise: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}

/** What went wrong, for a person. The credential is hidden even if the server repeated it. */
export function describeFailure(error: unknown, credential: string | undefined): string {
  const chain = causesOf(error);
  const refusal = chain.find((cause) => cause instanceof ServiceError);
  if (refusal !== undefined) return refusal.message;
  if (error instanceof SdkHttpError && (error.status === 401 || error.status === 403)) {
    return credential === undefined
      ? `the server wants a credential (HTTP ${error.status})`
      : `the server refused the credential (HTTP ${error.status})`;
  }
  if (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout) return 'the server did not answer in time';
  if (error instanceof DOMException && error.name === 'TimeoutError') return 'the server did not answer in time';
  return hideSecret(networkReason(error instanceof ProtocolError ? error : chain.at(-1)), credential).slice(0, 500);
}

/** The server no longer knows our session, so it did nothing with the request. */
export function isSessionUnknown(error: unknown): boolean {
  return error instanceof SdkHttpError && error.status === 404;
}

/** The server answered with an error of the protocol: the connection is fine. */
export function isAnswer(error: unknown): boolean {
  return error instanceof ProtocolError && error.code !== cutShort;
}

/** Tool output is not validated: a regular expression in the server's output schema could block the process forever. */
const acceptAnything = {
  getValidator<Value>(): JsonSchemaValidator<Value> {
    return (input) => ({ valid: true, data: input as Value, errorMessage: undefined });
  },
};

/** A server that breaks off an answer says after what time the rest is to be asked for. It may say a day, which nobody waits for. */
function resumeLater(resume: () => void, delayMs: number): () => void {
  const timer = setTimeout(resume, Math.min(delayMs, maxResumeDelayMs));
  return () => clearTimeout(timer);
}

type Receive = NonNullable<StreamableHTTPClientTransport['onmessage']>;

/**
 * Limits what a server can send, and how long it can keep a socket of ours. It also fails a request as soon as its response stream ends
 * without the answer, as when a server is restarted. The SDK alone would wait for the timeout.
 */
class LimitedTransport extends StreamableHTTPClientTransport {
  /** Requests and notifications of the server since our last request. */
  private unasked = 0;
  /** Ends the stream of a request that has its answer, or was cancelled. The SDK reads it until the server ends it, which may be never. */
  private readonly streams = new Map<RequestId, AbortController>();

  constructor(...parameters: ConstructorParameters<typeof StreamableHTTPClientTransport>) {
    super(...parameters);
    let receive: Receive | undefined;
    Object.defineProperty(this, 'onmessage', {
      get: () => receive,
      set: (given: Receive | undefined) => {
        receive = given && ((message) => this.passOn(message, given));
      },
    });
  }

  override send(...[message, options]: Parameters<StreamableHTTPClientTransport['send']>): Promise<void> {
    const id = 'id' in message && 'method' in message ? message.id : undefined;
    if (id === undefined) return this.sendNotice(message, options);
    this.unasked = 0;
    const error = { code: cutShort, message: 'the server closed the connection before it had answered' };
    const stream = new AbortController();
    const requestSignal = AbortSignal.any([stream.signal, ...(options?.requestSignal === undefined ? [] : [options.requestSignal])]);
    this.streams.set(id, stream);
    requestSignal.addEventListener('abort', () => this.streams.get(id) === stream && this.streams.delete(id), { once: true });
    // If the request already has its answer, the client ignores this one.
    const onRequestStreamEnd = () => this.onmessage?.({ jsonrpc: '2.0', id, error });
    return super.send(message, { ...options, requestSignal, onRequestStreamEnd }).catch((failure: unknown) => {
      const refusal = refusalIn(failure, id);
      if (refusal !== undefined) return this.onmessage?.(refusal);
      stream.abort();
      throw failure;
    });
  }

  override close(): Promise<void> {
    for (const stream of this.streams.values()) stream.abort();
    return super.close();
  }

  /** A notification, or our answer to a request of the server: nobody waits for what the server says to it. */
  private sendNotice(...[message, options]: Parameters<StreamableHTTPClientTransport['send']>): Promise<void> {
    const cancelled = 'method' in message && message.method === 'notifications/cancelled' ? message.params?.requestId : undefined;
    if (typeof cancelled === 'string' || typeof cancelled === 'number') this.endStream(cancelled, 0);
    return super.send(message, { ...options, requestSignal: AbortSignal.timeout(connectTimeoutMs) });
  }

  private endStream(id: RequestId, milliseconds: number): void {
    const stream = this.streams.get(id);
    this.streams.delete(id);
    if (stream !== undefined) setTimeout(() => stream.abort(), milliseconds).unref();
  }

  private passOn(message: Parameters<Receive>[0], receive: Receive): void {
    // A server that ends the stream itself, as it should, leaves us the connection for the next request.
    if (!('method' in message) && message.id !== undefined) this.endStream(message.id, endStreamMs);
    // The client answers every request of the server with a request of ours: more than a few are ignored.
    if ('method' in message && ++this.unasked > maxUnasked) return;
    const error = { code: cutShort, message: `the server sent more than ${maxValues} values in one answer` };
    if (!hasTooManyValues(message)) receive(message);
    else if ('id' in message && message.id !== undefined) receive({ jsonrpc: '2.0', id: message.id, error });
  }
}

/** The answer in a response with HTTP 400 or 404, as servers of the current revision send for a method that they do not know. */
function refusalIn(failure: unknown, id: RequestId): JSONRPCErrorResponse | undefined {
  if (!(failure instanceof SdkHttpError) || (failure.status !== 400 && failure.status !== 404)) return undefined;
  const answer = parseJson(String(failure.data.text));
  if (!isJSONRPCErrorResponse(answer) || answer.id !== id) return undefined;
  return failure.status === 404 && answer.error.code === sessionNotFound ? undefined : answer;
}

/** Does not open the stream of announcements, and limits the size of each answer, where all pages of a list count as one. */
function limitedFetch(fetch: McpFetch): McpFetch {
  let received = nothingReceived();
  return async (url, init = {}) => {
    const resumesAnswer = new Headers(init.headers).has('last-event-id');
    // Servers announce changes of their tool list, which a release has pinned.
    if (init.method === 'GET' && !resumesAnswer) return notOffered();
    // The client would go on forever, even when nobody waits for the answer any more; with this response it gives up.
    if (resumesAnswer && ++received.resumptions > maxResumptions) return notOffered();
    if (!resumesAnswer && !isNextPage(init.body)) received = nothingReceived();
    return limitAnswer(await fetch(url, init), received);
  };
}

function nothingReceived() {
  return { bytes: 0, lines: 0, resumptions: 0 };
}

/** How a server says that it has no stream to offer. */
function notOffered(): Response {
  return new Response(null, { status: 405 });
}

/** The client collects all pages of a list before it returns them. */
function isNextPage(body: RequestInit['body']): boolean {
  return typeof body === 'string' && body.includes('"method":"tools/list"') && body.includes('"cursor":');
}

const connectTimeoutMs = 15_000;
const endSessionMs = 1_000;
const endStreamMs = 1_000;
const maxResumeDelayMs = 30_000;
/** Our own code for an answer that was cut off. JSON-RPC reserves its range for implementations. */
const cutShort = -32_099;
/** What common servers say, with HTTP 404, of a session that they no longer know. */
const sessionNotFound = -32_001;
