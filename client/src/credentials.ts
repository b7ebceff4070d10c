import { AuthenticationError } from './errors.ts';
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
  #kept: string | undefined;
  #asking: Promise<string> | undefined;

  constructor({ apiKey, sessionToken }: ClientOptions) {
    const source = apiKey ?? sessionToken;
    if (source === undefined || (apiKey !== undefined && sessionToken !== undefined))
      throw new TypeError('Give the client an apiKey or a sessionToken, and not both');
    this.#source = source;
  }

  /** Whether there is a function that may give another credential. */
  get renewable(): boolean {
    return typeof this.#source === 'function';
  }

  async get(): Promise<string> {
    if (typeof this.#source === 'string') return this.#source;
    if (this.#kept !== undefined && !expiresSoon(this.#kept)) return this.#kept;
    this.#asking ??= this.#ask(this.#source);
    return this.#asking;
  }

  /** The server refused this credential: the next `get` calls the function. */
  refused(credential: string): void {
    if (this.#kept === credential) this.#kept = undefined;
  }

  async #ask(source: () => string | Promise<string>): Promise<string> {
    try {
      const credential = await source();
      // Otherwise the request would carry the token "undefined", and the server's 401 would hide the cause.
      if (!credential) throw new AuthenticationError(401, 'The function that gives the credential gave none');
      this.#kept = credential;
      return credential;
    } finally {
      this.#asking = undefined;
    }
  }
}

/** A credential that is not a JWT does not expire. */
function expiresSoon(credential: string): boolean {
  const { exp } = claimsOf(credential) ?? {};
  return typeof exp === 'number' && exp * 1000 - renewBeforeMs < Date.now();
}
