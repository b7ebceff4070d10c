import { setTimeout as sleep } from 'node:timers/promises';
import {
  Client,
  type JsonSchemaValidator,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { causesOf, errorMessage, ServiceError } from '../errors.ts';
import { hideSecret } from '../hide-secret.ts';
import type { McpServerConfig } from '../release-config.ts';
import { hasTooManyValues, limitAnswer, maxUnasked, maxValues } from './mcp-limits.ts';

/** The guarded fetch of upstreams. */
export type McpFetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** A server and, in the clear, what signs in there. It goes into one header and nowhere else. */
export interface McpTarget {
  server: McpServerConfig;
  credential: string | undefined;
}

export interface McpClient {
  client: Client;
  /** Ends the session at the server too, if it keeps one. Never throws. */
  close(): Promise<void>;
}

/** Connects to a server. Throws what `describeFailure` can say. */
export async function openMcpClient({ server, credential }: McpTarget, fetch: McpFetch, signal?: AbortSignal): Promise<McpClient> {
  const headers = credential === undefined ? {} : { authorization: `Bearer ${credential}` };
  const transport = new HonestTransport(new URL(server.url), { fetch: quietFetch(fetch), requestInit: { headers } });
  const client = new Client({ name: 'parley', version: '1' }, { versionNegotiation: { mode: 'auto' }, jsonSchemaValidator: takesAll });
  // Failures reach whoever waits for an answer; what is left concerns no one.
  client.onerror = () => {};
  const close = async () => {
    // A server that does not answer a goodbye is left without one: closing cuts off what is still under way.
    await Promise.race([transport.terminateSession().catch(() => {}), sleep(goodbyeMs, undefined, { ref: false })]);
    await client.close().catch(() => {});
  };
  try {
    // The client would not look at a signal while it finds out which version the server speaks.
    await unlessAborted(client.connect(transport, { timeout: connectTimeoutMs }), signal);
  } catch (error) {
    await client.close().catch(() => {});
    await transport.close().catch(() => {});
    throw error;
  }
  return { client, close };
}

/** What is waited for goes on; whoever aborts only stops waiting. */
export function unlessAborted<Value>(promise: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}

/** What went wrong, for a person, without the credential even if the server repeated it. */
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
  return hideSecret(errorMessage(error instanceof ProtocolError ? error : chain.at(-1)), credential).slice(0, 500);
}

/** The server no longer knows this connection, and did nothing with the request. */
export function isForgotten(error: unknown): boolean {
  return error instanceof SdkHttpError && error.status === 404;
}

/** The server answered; the connection is fine. */
export function isAnswer(error: unknown): boolean {
  return error instanceof ProtocolError && error.code !== cutShort;
}

/** A tool's output is only read. Held against the schema that the server gives for it, a pattern in there could hold up the process for good. */
const takesAll = {
  getValidator<Value>(): JsonSchemaValidator<Value> {
    return (input) => ({ valid: true, data: input as Value, errorMessage: undefined });
  },
};

type Receive = NonNullable<StreamableHTTPClientTransport['onmessage']>;

/** Tells whoever waits that a stream ended without their answer, as it does when a server is restarted: it would be told when the time is up. */
class HonestTransport extends StreamableHTTPClientTransport {
  /** Messages since our last request that answer nothing. */
  private unasked = 0;

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
    if (id === undefined) return super.send(message, options);
    this.unasked = 0;
    const error = { code: cutShort, message: 'the server closed the connection before it had answered' };
    // Of a request that has its answer nobody waits any more.
    return super.send(message, { ...options, onRequestStreamEnd: () => this.onmessage?.({ jsonrpc: '2.0', id, error }) });
  }

  private passOn(message: Parameters<Receive>[0], receive: Receive): void {
    // The client answers each request of a server, with one of ours.
    if ('method' in message && ++this.unasked > maxUnasked) return;
    const error = { code: cutShort, message: `the server sent more than ${maxValues} values in one answer` };
    if (!hasTooManyValues(message)) receive(message);
    else if ('id' in message && message.id !== undefined) receive({ jsonrpc: '2.0', id: message.id, error });
  }
}

/** Keeps the one stream that nobody reads from being opened, and any answer, or the pages of a list together, from filling the memory. */
function quietFetch(fetch: McpFetch): McpFetch {
  let received = { bytes: 0, lines: 0 };
  return async (url, init = {}) => {
    const resumes = new Headers(init.headers).has('last-event-id');
    // A tool list is pinned by its release, so announcements of the server have no use here.
    if (init.method === 'GET' && !resumes) return new Response(null, { status: 405 });
    // One that is resumed is the same answer.
    if (!resumes && !isNextPage(init.body)) received = { bytes: 0, lines: 0 };
    return limitAnswer(await fetch(url, init), received);
  };
}

/** The client asks for all pages of a list and keeps them until the last. */
function isNextPage(body: RequestInit['body']): boolean {
  return typeof body === 'string' && body.includes('"method":"tools/list"') && body.includes('"cursor":');
}

const connectTimeoutMs = 15_000;
const goodbyeMs = 1_000;
/** Among the codes that JSON-RPC keeps for implementations. */
const cutShort = -32_099;
