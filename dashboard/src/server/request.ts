import { checkReachable, reportLost, untilReachable, watchForSilence, whileReachable } from './connection.ts';

/** A response with an error status and the server's message. Status 0: the server could not be reached. */
export class RequestError extends Error {
  readonly status: number;
  readonly requestId: string | undefined;
  /** From the header `Retry-After`, which the server or a proxy may send. */
  readonly waitMs: number | undefined;

  constructor(status: number, message: string, requestId?: string, waitMs?: number) {
    super(message);
    this.name = 'RequestError';
    this.status = status;
    this.requestId = requestId;
    this.waitMs = waitMs;
  }

  /** The server could not be reached, or a proxy says so: a request that is safe to repeat is repeated. */
  get isTemporary(): boolean {
    return this.status === 0 || isGatewayError(this.status);
  }
}

function isGatewayError(status: number): boolean {
  return status >= 502 && status <= 504;
}

interface RequestOptions {
  body?: unknown;
  signal?: AbortSignal;
  idempotencyKey?: string;
  /** Let the server choose one of the person's orgs, instead of naming the org of this tab. */
  anyOrganization?: boolean;
}

const organizationKey = 'parley-organization';

/** The org of this tab, which every request names: another tab may meanwhile have chosen another one. */
let organization = localStorage.getItem(organizationKey);

export function setOrganization(slug: string): void {
  organization = slug;
}

export function tabOrganization(): string | null {
  return organization;
}

/** Stores the org that the dashboard opens with when it is next loaded. The org of this tab stays the same until then. */
export function chooseOrganization(slug: string | null): void {
  if (slug === null) localStorage.removeItem(organizationKey);
  else localStorage.setItem(organizationKey, slug);
}

/** Waits while the server is away: otherwise every read on the page would fail by itself. */
export async function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  await untilReachable();
  return request<Answer>('GET', path, signal === undefined ? {} : { signal });
}

export function post<Answer>(path: string, body: unknown = {}, options: Omit<RequestOptions, 'body'> = {}): Promise<Answer> {
  return request<Answer>('POST', path, { ...options, body });
}

export async function request<Answer>(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
  const response = await send(method, path, options);
  if (!response.ok) throw await refusal(response);
  if (response.status === 204) return undefined as Answer;
  return response.json().catch((error: unknown) => {
    // A SyntaxError means a complete body that is not JSON, and asking again would not help. Otherwise the connection broke.
    throw error instanceof SyntaxError ? error : unreachable(error, options.signal);
  });
}

/** Saves the response as a file. A plain link could neither send the header that names the org nor show why it was refused. */
export async function download(path: string, name: string): Promise<void> {
  const response = await send('GET', path, {});
  if (!response.ok) throw await refusal(response);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * A request that changes something with a member's cookie must have `x-parley-dashboard`, which a page of another site cannot
 * send (protection against CSRF).
 */
export function dashboardHeaders(anyOrganization = false): Record<string, string> {
  return {
    'x-parley-dashboard': '1',
    ...(organization === null || anyOrganization ? {} : { 'x-parley-organization': organization }),
  };
}

/** Terse messages of the API, in words for the person who pressed a button. */
const friendlyMessages: Record<string, string> = {
  Unauthorized: 'Your login had ended, so nothing was changed. Try again.',
  'Not Found': 'This no longer exists: somebody may have deleted it meanwhile.',
};

export async function refusal(response: Response): Promise<RequestError> {
  const requestId = response.headers.get('x-request-id') ?? undefined;
  // NaN if the header is a date, which is then ignored below.
  const seconds = Math.min(Number(response.headers.get('retry-after')), 60);
  const message = messageOf(await response.json().catch(() => undefined)) ?? `The server answered ${response.status}.`;
  if (isGatewayError(response.status)) await checkReachable();
  return new RequestError(response.status, message, requestId, seconds > 0 ? seconds * 1_000 : undefined);
}

async function send(method: string, path: string, options: RequestOptions): Promise<Response> {
  const { body, signal, idempotencyKey, anyOrganization } = options;
  const signals = [...(signal === undefined ? [] : [signal]), ...(method === 'GET' ? [whileReachable()] : [])];
  const init: RequestInit = {
    method,
    headers: {
      ...dashboardHeaders(anyOrganization),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signals.length === 0 ? {} : { signal: AbortSignal.any(signals) }),
  };
  try {
    return await watchForSilence(fetch(path, init));
  } catch (error) {
    throw unreachable(error, signal);
  }
}

/** There was no response: reports the connection as lost, unless the caller aborted the request. Returns the error to throw. */
function unreachable(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return error;
  reportLost();
  return new RequestError(0, 'The server cannot be reached.');
}

function messageOf(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const detail = 'detail' in body ? body.detail : body;
  if (typeof detail === 'string') return friendlyMessages[detail] ?? detail;
  if (typeof detail !== 'object' || detail === null || !('message' in detail)) return undefined;
  return typeof detail.message === 'string' ? detail.message : undefined;
}
