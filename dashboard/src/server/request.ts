import { reportLost, reportUnserved, untilReachable, watch, whileReachable } from './connection.ts';

/** What the server refused, in its own words. Status 0: it could not be reached. */
export class RequestError extends Error {
  readonly status: number;
  readonly requestId: string | undefined;
  /** How long the server, or what stands before it, asked to wait before the next attempt. */
  readonly waitMs: number | undefined;

  constructor(status: number, message: string, requestId?: string, waitMs?: number) {
    super(message);
    this.name = 'RequestError';
    this.status = status;
    this.requestId = requestId;
    this.waitMs = waitMs;
  }

  /** The server is away, or a proxy says so in its place: what may be asked twice is asked again. */
  get isPassing(): boolean {
    return this.status === 0 || isUnserved(this.status);
  }
}

function isUnserved(status: number): boolean {
  return status >= 502 && status <= 504;
}

interface RequestOptions {
  body?: unknown;
  signal?: AbortSignal;
  idempotencyKey?: string;
  /** Not for the org of this tab, but for whichever the server finds first. */
  anyOrganization?: boolean;
}

const organizationKey = 'parley-organization';

/** The org that this tab shows and its requests are for, whatever is chosen in another tab meanwhile. */
let organization = localStorage.getItem(organizationKey);

export function stayWith(slug: string): void {
  organization = slug;
}

/** For a person who belongs to several: what the next page that is loaded begins with. */
export function chooseOrganization(slug: string | null): void {
  if (slug === null) localStorage.removeItem(organizationKey);
  else localStorage.setItem(organizationKey, slug);
}

/** While the server is away a reading waits for it: asking would be refused, once for everything on the page. */
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
    // What came whole and is no JSON would be so again; anything else broke off on the way.
    throw error instanceof SyntaxError ? error : lost(error, options.signal);
  });
}

/** Saves the answer as a file. A browser that is sent to its address instead says neither for which org, nor why it was refused. */
export async function download(path: string, name: string): Promise<void> {
  const response = await send('GET', path, {});
  if (!response.ok) throw await refusal(response);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** What a page of another site cannot send: it lets a signed-in person's browser change things, and marks where they come from. */
export function ownHeaders(anyOrganization = false): Record<string, string> {
  return {
    'x-parley-dashboard': '1',
    ...(organization === null || anyOrganization ? {} : { 'x-parley-organization': organization }),
  };
}

/** What the API says in one word to every program, for the person who pressed a button. */
const saidToPeople: Record<string, string> = {
  Unauthorized: 'Your login had ended, so nothing was changed. Try again.',
  'Not Found': 'This no longer exists: somebody may have deleted it meanwhile.',
};

export async function refusal(response: Response): Promise<RequestError> {
  const requestId = response.headers.get('x-request-id') ?? undefined;
  // A date, which a proxy may send, is no number.
  const seconds = Math.min(Number(response.headers.get('retry-after')), 60);
  const message = explain(await response.json().catch(() => undefined)) ?? `The server answered ${response.status}.`;
  if (isUnserved(response.status)) await reportUnserved();
  return new RequestError(response.status, message, requestId, seconds > 0 ? seconds * 1_000 : undefined);
}

async function send(method: string, path: string, options: RequestOptions): Promise<Response> {
  const { body, signal, idempotencyKey, anyOrganization } = options;
  const signals = [...(signal === undefined ? [] : [signal]), ...(method === 'GET' ? [whileReachable()] : [])];
  const init: RequestInit = {
    method,
    headers: {
      ...ownHeaders(anyOrganization),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signals.length === 0 ? {} : { signal: AbortSignal.any(signals) }),
  };
  try {
    return await watch(fetch(path, init));
  } catch (error) {
    throw lost(error, signal);
  }
}

/** Why there was no answer: the server is away, unless whoever asked has left. */
function lost(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return error;
  reportLost();
  return new RequestError(0, 'The server cannot be reached.');
}

function explain(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const detail = 'detail' in body ? body.detail : body;
  if (typeof detail === 'string') return saidToPeople[detail] ?? detail;
  if (typeof detail !== 'object' || detail === null || !('message' in detail)) return undefined;
  return typeof detail.message === 'string' ? detail.message : undefined;
}
