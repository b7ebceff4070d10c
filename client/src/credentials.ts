import { unlessAborted } from './backoff.ts';
import { AuthenticationError, ConnectionError } from './errors.ts';
import type { ClientOptions, Credential } from './options.ts';
import { claimsOf } from './token-claims.ts';

/** A token is renewed this long before it expires, so that it is still valid when the request arrives. */
const renewBeforeMs = 20_000;

/**
 * Gets the credential. If the application gave a function, its result is kept, and the function is called again when the
 * server refused the credential or it is about to expire; concurrent requests share one call.
 */
export class Credentials {
  readonly #source: Credential;
  readonly #timeoutMs: number;
  #kept: string | undefined;
  #asking: Promise<string> | undefined;

  constructor({ apiKey, sessionToken }: ClientOptions, timeoutMs: number) {
    const source = apiKey ?? sessionToken;
    if (source === undefined || (apiKey !== undefined && sessionToken !== undefined))
      throw new TypeError('Give the client an apiKey or a sessionToken, and not both');
    if (typeof source === 'string' && !fitsHeader(source))
      throw new TypeError('The apiKey or sessionToken has characters that no credential has');
    this.#source = source;
    this.#timeoutMs = timeoutMs;
  }

  /** Whether there is a function that may give another credential. */
  get renewable(): boolean {
    return typeof this.#source === 'function';
  }

  /** The signal ends the waiting of its own request only: others may wait for the same answer. */
  async get(signal: AbortSignal | undefined): Promise<string> {
    if (typeof this.#source === 'string') return this.#source;
    if (this.#kept !== undefined && !expiresSoon(this.#kept)) return this.#kept;
    this.#asking ??= this.#ask(this.#source);
    return unlessAborted(this.#asking, signal);
  }

  /** The server refused this credential: the next `get` calls the function. */
  refused(credential: string): void {
    if (this.#kept === credential) this.#kept = undefined;
  }

  async #ask(source: () => string | Promise<string>): Promise<string> {
    const late = new AbortController();
    const reason = new ConnectionError('The function that gives the credential did not answer in time');
    const timer = setTimeout(() => late.abort(reason), this.#timeoutMs);
    try {
      // Not called here and now: if it threw at once, `#asking` would be set after it was cleared below.
      const credential = await unlessAborted(Promise.resolve().then(source), late.signal);
      // Otherwise the request would carry the token "undefined", and the server's 401 would hide the cause.
      if (!credential) throw new AuthenticationError(401, 'The function that gives the credential gave none');
      if (!fitsHeader(credential))
        throw new AuthenticationError(401, 'The function that gives the credential gave one with characters that no credential has');
      this.#kept = credential;
      return credential;
    } finally {
      clearTimeout(timer);
      this.#asking = undefined;
    }
  }
}

/** With other characters, `fetch` fails as it does where there is no server. It leaves out the line break that a file ends with. */
function fitsHeader(credential: string): boolean {
  return /^\s*[\x21-\x7e]*\s*$/.test(credential);
}

/** A credential that is not a JWT does not expire. */
function expiresSoon(credential: string): boolean {
  const { exp } = claimsOf(credential) ?? {};
  return typeof exp === 'number' && exp * 1000 - renewBeforeMs < Date.now();
}
