import { reportLost } from './connection.ts';

/** What the server refused, in its own words. Status 0: it could not be reached. */
export class RequestError extends Error {
  readonly status: number;
  readonly code: string | undefined;
  readonly requestId: string | undefined;

  constructor(status: number, message: string, code?: string, requestId?: string) {
    super(message);
    this.name = 'RequestError';
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }
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

export function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  return request<Answer>('GET', path, signal === undefined ? {} : { signal });
}

export function post<Answer>(path: string, body: unknown = {}, options: Omit<RequestOptions, 'body'> = {}): Promise<Answer> {
  return request<Answer>('POST', path, { ...options, body });
}

export async function request<Answer>(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
  const response = await send(method, path, options);
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as Answer;
  throw await refusal(response);
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
  const body: unknown = await response.json().catch(() => undefined);
  const { message, code } = explain(body);
  if (response.status === 503) reportLost();
  return new RequestError(response.status, message ?? `The server answered ${response.status}.`, code, requestId);
}

async function send(method: string, path: string, options: RequestOptions): Promise<Response> {
  const { body, signal, idempotencyKey, anyOrganization } = options;
  const init: RequestInit = {
    method,
    headers: {
      ...ownHeaders(anyOrganization),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  };
  try {
    return await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    reportLost();
    throw new RequestError(0, 'The server cannot be reached.');
  }
}

function explain(body: unknown): { message?: string; code?: string } {
  if (typeof body !== 'object' || body === null) return {};
  const detail = 'detail' in body ? body.detail : body;
  if (typeof detail === 'string') return { message: saidToPeople[detail] ?? detail };
  if (typeof detail !== 'object' || detail === null) return {};
  return {
    ...('message' in detail && typeof detail.message === 'string' ? { message: detail.message } : {}),
    ...('error' in detail && typeof detail.error === 'string' ? { code: detail.error } : {}),
  };
}
