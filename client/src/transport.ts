import { backoffMs, sleep } from './backoff.ts';
import { Credentials } from './credentials.ts';
import { ApiError, apiError, ConnectionError, ParleyError } from './errors.ts';
import { newKey } from './new-key.ts';
import type { ClientOptions, RequestOptions } from './options.ts';
import { readText } from './read-body.ts';

export interface Call extends RequestOptions {
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  /** Overrides the client's `maxRetries`; 0 for a stream that counts its own attempts to reconnect. */
  maxRetries?: number;
  /** The request may be carried out twice without harm: no idempotency key is sent, so the server need not store the answer. */
  harmless?: boolean;
}

const maxBackoffMs = 8_000;

/** Sends requests: adds the credential, gives each POST an idempotency key that makes it safe to repeat, and retries. */
export class Transport {
  readonly #options: ClientOptions;
  readonly #credentials: Credentials;
  readonly #fetch: typeof globalThis.fetch;
  readonly #root: string;
  readonly #timeoutMs: number;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#timeoutMs = options.timeoutMs ?? 60_000;
    this.#credentials = new Credentials(options, this.#timeoutMs);
    // Browsers throw if their fetch is called as a method of another object, such as this one.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#root = rootOf(options.baseUrl);
  }

  /** The JSON of a successful response, the text of CSV, or undefined if the body is empty. The caller names its type, which is not checked. */
  async json<Body>(method: string, path: string, call: Call = {}): Promise<Body> {
    const { text, headers } = await this.#send(method, path, call, readAnswer);
    if (text === undefined)
      throw new ParleyError(
        'The answer is a stream of events: use messages.stream or managed.events, or a client library of the API whose route this is',
      );
    if (isOfType(headers, 'text/csv')) return text as Body;
    const isEmpty = text.trim() === '';
    const body = isEmpty ? undefined : parseJson(text);
    if (body === undefined && !isEmpty)
      throw new ParleyError(`The answer is not that of a Parley server: is the baseUrl ${this.#root} right?`);
    if (isLateFailure(body)) throw apiError(200, body, headers);
    return body as Body;
  }

  /** A successful response whose body has not been read yet. */
  open(method: string, path: string, call: Call = {}): Promise<Response> {
    return this.#send(method, path, call, async (response) => response);
  }

  /** Sends the request, again if necessary, until a response has been read; throws when another attempt cannot help. */
  async #send<Answer>(method: string, path: string, call: Call, read: (response: Response) => Promise<Answer>): Promise<Answer> {
    const { maxRetries = this.#options.maxRetries ?? 5, signal } = call;
    const headers: Record<string, string> = { accept: 'application/json', ...call.headers };
    if (call.body !== undefined) headers['content-type'] = 'application/json';
    if (method === 'POST' && !call.harmless) headers['idempotency-key'] = call.idempotencyKey ?? newKey();
    const init = { method, headers, ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }) };
    let isRenewed = false;
    for (let attempt = 0; ; attempt += 1) {
      const outcome = await this.#attempt(this.#root + path + queryText(call.query), init, read, signal);
      if ('answer' in outcome) return outcome.answer;
      const { failure } = outcome;
      if (!isRenewed && failure instanceof ApiError && failure.status === 401 && this.#credentials.renewable) {
        isRenewed = true;
        continue;
      }
      if (attempt >= maxRetries || !isRetryable(failure)) throw failure;
      await sleep(waitMs(failure, attempt), signal);
    }
  }

  async #attempt<Answer>(
    url: string,
    init: RequestInit & { headers: Record<string, string> },
    read: (response: Response) => Promise<Answer>,
    signal: AbortSignal | undefined,
  ): Promise<{ answer: Answer } | { failure: ApiError | ConnectionError }> {
    signal?.throwIfAborted();
    const credential = await this.#credentials.get(signal);
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new ConnectionError('The server did not answer in time')), this.#timeoutMs);
    try {
      const response = await this.#fetch(url, {
        ...init,
        headers: { ...init.headers, authorization: `Bearer ${credential}` },
        signal: signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]),
      });
      clearTimeout(timer);
      if (response.ok) return { answer: await read(response) };
      if (response.status === 401) this.#credentials.refused(credential);
      return { failure: apiError(response.status, parseJson(await readText(response)), response.headers) };
    } catch (error) {
      return { failure: connectionError(error, signal) };
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * Checked here, because requests to a URL that `fetch` refuses would fail like those to an unreachable server. In a browser the
 * URL may be a path below the page's origin.
 */
function rootOf(baseUrl: string): string {
  if (/^https?:\/\/[^/?#]*@/i.test(baseUrl)) throw new TypeError('The baseUrl must not have a user name or a password');
  if (!/^(https?:\/\/|\/|$)/i.test(baseUrl) || !URL.canParse(baseUrl, 'http://page'))
    throw new TypeError(`The baseUrl must be a URL such as http://127.0.0.1:8080, not "${baseUrl}"`);
  return baseUrl.replace(/\/+$/, '');
}

/** The error for a connection that failed or broke. If the caller aborted the request, throws the signal's reason instead. */
export function connectionError(error: unknown, signal: AbortSignal | undefined): ConnectionError {
  signal?.throwIfAborted();
  if (error instanceof ConnectionError) return error;
  return new ConnectionError('The server could not be reached, or the connection broke', { cause: error });
}

/** Whether the same request may succeed later. Parley says so in a header; for a proxy in front of it, only the status tells. */
export function isRetryable(error: ApiError | ConnectionError): boolean {
  if (error instanceof ConnectionError) return true;
  return error.shouldRetry ?? (error.status === 429 || error.status === 503 || isUnreached(error));
}

/** A proxy's answer while Parley restarts. Those of Parley itself have a `detail`: there, somebody else was not reached. */
function isUnreached({ status, detail }: ApiError): boolean {
  return (status === 502 || status === 504) && detail === undefined;
}

/** How long to wait before the next attempt: what `Retry-After` says, up to a minute; without it, exponential backoff. */
export function waitMs(error: ApiError | ConnectionError, attempt: number): number {
  const seconds = error instanceof ConnectionError ? undefined : error.retryAfterSeconds;
  return seconds === undefined ? backoffMs(attempt, maxBackoffMs) : Math.min(seconds, 60) * 1000 + Math.random() * 250;
}

function queryText(query: Call['query'] = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) given.set(name, String(value));
  return given.size === 0 ? '' : `?${given}`;
}

/**
 * For a long turn the server sends the status 200 before the turn is done, so that a failure is only in the body: `detail`,
 * and on the OpenAI-compatible routes also `error`, which a response has among its other fields.
 */
function isLateFailure(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'detail' in body && ('error' in body || Object.keys(body).length === 1);
}

/** No text for a stream of events, which may never end. */
async function readAnswer(response: Response): Promise<{ text: string | undefined; headers: Headers }> {
  const { headers, body } = response;
  if (!isOfType(headers, 'text/event-stream')) return { text: await readText(response), headers };
  body?.cancel().catch(() => {});
  return { text: undefined, headers };
}

function isOfType(headers: Headers, type: string): boolean {
  return headers.get('content-type')?.toLowerCase().startsWith(type) ?? false;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
