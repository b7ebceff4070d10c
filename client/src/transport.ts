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
  /** Overrides the client's; a stream that reconnects by itself counts its own attempts. */
  maxRetries?: number;
  /** Doing it twice does no harm: no key is sent, and the server need not remember the answer. */
  harmless?: boolean;
}

const mostBackoffMs = 8_000;

/** Sends requests: signs them in, gives POSTs a key that makes them safe to repeat, and repeats them where that can help. */
export class Transport {
  readonly #options: ClientOptions;
  readonly #credentials: Credentials;
  readonly #fetch: typeof globalThis.fetch;
  readonly #root: string;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#credentials = new Credentials(options);
    // Browsers refuse a fetch that is called as a method of something else.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#root = rootOf(options.baseUrl);
  }

  /** The parsed JSON of a good answer; undefined for an empty one. The caller names its type: it is the contract's word. */
  async json<Body>(method: string, path: string, call: Call = {}): Promise<Body> {
    const { text, headers } = await this.#send(method, path, call, async (response) => ({
      text: await readText(response),
      headers: response.headers,
    }));
    const isEmpty = text.trim() === '';
    const body = isEmpty ? undefined : parseJson(text);
    if (body === undefined && !isEmpty)
      throw new ParleyError(`The answer is not that of a Parley server: is the baseUrl ${this.#root} right?`);
    if (isLateFailure(body)) throw apiError(200, body, headers);
    return body as Body;
  }

  /** A good answer whose body is still to be read. */
  open(method: string, path: string, call: Call = {}): Promise<Response> {
    return this.#send(method, path, call, async (response) => response);
  }

  /** Sends the request until an answer has come and been read, or until trying again is no use. */
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
    const credential = await this.#credentials.get();
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new ConnectionError('The server did not answer in time')), this.#options.timeoutMs ?? 60_000);
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
      return { failure: disconnected(error, signal) };
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Checked here, as a URL without its scheme would pass for a server that is away. In a page it may be relative to the origin. */
function rootOf(baseUrl: string): string {
  if (!/^(https?:\/\/|\/|$)/i.test(baseUrl))
    throw new TypeError(`The baseUrl must be a URL such as http://127.0.0.1:8080, not "${baseUrl}"`);
  return baseUrl.replace(/\/+$/, '');
}

/** Passes the caller's own abort on, and calls everything else what it is to them: no connection. */
export function disconnected(error: unknown, signal: AbortSignal | undefined): ConnectionError {
  signal?.throwIfAborted();
  if (error instanceof ConnectionError) return error;
  return new ConnectionError('The server could not be reached, or the connection broke', { cause: error });
}

/** Whether the same request may succeed when it is sent again later. Parley says so; what stands before it only has a status. */
export function isRetryable(error: ApiError | ConnectionError): boolean {
  if (error instanceof ConnectionError) return true;
  return error.shouldRetry ?? (error.status === 429 || error.status === 503);
}

/** The server's word counts, up to a minute; without one, back off. */
export function waitMs(error: ApiError | ConnectionError, attempt: number): number {
  const asked = error instanceof ConnectionError ? undefined : error.retryAfterSeconds;
  return asked === undefined ? backoffMs(attempt, mostBackoffMs) : Math.min(asked, 60) * 1000 + Math.random() * 250;
}

function queryText(query: Call['query'] = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) given.set(name, String(value));
  return given.size === 0 ? '' : `?${given}`;
}

/** A long turn sends 200 before it is done; its failure is then in the body. The OpenAI surfaces say it a second time, as `error`. */
function isLateFailure(body: unknown): boolean {
  return typeof body === 'object' && body !== null && ['detail', 'detail,error'].includes(Object.keys(body).join());
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
