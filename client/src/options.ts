/** A credential, or how to get one: asked again when the server refuses it or when its `exp` is near. */
export type Credential = string | (() => string | Promise<string>);

export interface ClientOptions {
  /** Where Parley listens, such as `https://agents.example.com`. */
  baseUrl: string;
  /** `svc_live_...`: for servers only. Give this or `sessionToken`. */
  apiKey?: Credential;
  /** A short-lived token that your backend minted for one end user: for browsers. It reaches the managed sessions only. */
  sessionToken?: Credential;
  /** `org/agent`. Without it the native calls go to the organization's default agent. */
  agent?: string;
  /** How often a request is tried again after a network failure, or a refusal that will pass. Default 5. */
  maxRetries?: number;
  /** How long the server may take to begin its answer, in milliseconds. Default 60,000. */
  timeoutMs?: number;
  /** Used in place of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

export interface RequestOptions {
  /** Stops waiting. It does not stop the turn; `sessions.stop` and `managed.interrupt` do. */
  signal?: AbortSignal;
  /** Replaces the generated key: give your own to make a call repeatable across restarts of your process. */
  idempotencyKey?: string;
}
