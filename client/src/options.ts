/** A credential, or a function that gets one, called again when the server refuses it or when its `exp` is near. */
export type Credential = string | (() => string | Promise<string>);

export interface ClientOptions {
  /** Where Parley listens, such as `https://agents.example.com`. */
  baseUrl: string;
  /** `svc_live_...`, for your backend only. Give either this or `sessionToken`. */
  apiKey?: Credential | undefined;
  /** A short-lived token that your backend minted for one end user, for browsers. It works with `managed` only. */
  sessionToken?: Credential | undefined;
  /** `org/agent`. Without it the native calls go to the organization's default agent. */
  agent?: string | undefined;
  /** How often a request is retried after a network failure or a temporary error of the server. Default 5. */
  maxRetries?: number | undefined;
  /** How long the server may take until it begins its response, and before that a function until it gives the credential. Default 60,000. */
  timeoutMs?: number | undefined;
  /** Used in place of the global `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
}

export interface RequestOptions {
  /** Cancels the request, but not the turn: `sessions.stop` and `managed.interrupt` do that. */
  signal?: AbortSignal | undefined;
  /** Replaces the generated key. With one that you store, a call can be repeated safely after a restart of your process. */
  idempotencyKey?: string | undefined;
}
