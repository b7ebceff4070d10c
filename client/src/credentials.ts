import { AuthenticationError } from './errors.ts';
import type { ClientOptions, Credential } from './options.ts';

/** A token is renewed this long before it ends, so that none expires on its way. */
const renewBeforeMs = 20_000;

/** Hands out the credential and asks for a new one when it was refused or is about to end; callers at the same time share one question. */
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

  /** Whether asking again may give another one. */
  get renewable(): boolean {
    return typeof this.#source === 'function';
  }

  async get(): Promise<string> {
    if (typeof this.#source === 'string') return this.#source;
    if (this.#kept !== undefined && !endsSoon(this.#kept)) return this.#kept;
    this.#asking ??= this.#ask(this.#source);
    return this.#asking;
  }

  /** The server refused this one: the next `get` asks. */
  refused(credential: string): void {
    if (this.#kept === credential) this.#kept = undefined;
  }

  async #ask(source: () => string | Promise<string>): Promise<string> {
    try {
      const credential = await source();
      // Sent as it is, the server would refuse the word "undefined" without saying why.
      if (!credential) throw new AuthenticationError(401, 'The function that gives the credential gave none');
      this.#kept = credential;
      return credential;
    } finally {
      this.#asking = undefined;
    }
  }
}

/** Reads `exp` without verifying anything: the server does that. What is no token never ends. */
function endsSoon(credential: string): boolean {
  try {
    const payload = credential.split('.')[1] ?? '';
    const { exp } = JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/')));
    return typeof exp === 'number' && exp * 1000 - renewBeforeMs < Date.now();
  } catch {
    return false;
  }
}
