import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { type KeyName, loadClientSettings, loadKey } from '../config.ts';
import { causesOf, errorCode, errorMessage } from '../errors.ts';
import { isRecord, parseJson } from '../text/json.ts';

type Body = Record<string, unknown>;

/** Sends one request. If the server refuses it, throws an error that says what to do about it. */
export async function call<Answer = Body>(
  method: string,
  path: string,
  body?: unknown,
  keyName: KeyName = 'PARLEY_API_KEY',
): Promise<Answer> {
  const response = await request(method, path, body, keyName);
  const text = await response.text().catch((error: unknown) => {
    throw cutShort(error);
  });
  const answer = parse(text);
  // The server sends status 200 for a long turn before it has ended. If the turn fails, only the body says so.
  if (Object.keys(answer).join() === 'detail') throw new Error(detailText(answer) ?? `HTTP ${response.status}`);
  return answer as Answer;
}

function parse(text: string): Body {
  const answer = text === '' ? {} : parseJson(text);
  if (!isRecord(answer)) throw new Error(describeStranger());
  return answer;
}

/** Reads all pages of a list. The operator's list is called `organizations`, and the audit log has its cursor in `meta`. */
export async function callList<Item = Body>(path: string, keyName?: KeyName): Promise<{ data: Item[]; next_cursor: null }> {
  type Page = { data?: Item[]; organizations?: Item[]; next_cursor?: string | null; meta?: { next_cursor: string | null } };
  const data: Item[] = [];
  for (let cursor = ''; ; ) {
    const page = await call<Page>('GET', `${path}${path.includes('?') ? '&' : '?'}cursor=${cursor}`, undefined, keyName);
    data.push(...(page.data ?? page.organizations ?? []));
    const next = page.meta?.next_cursor ?? page.next_cursor ?? null;
    if (next === null) return { data, next_cursor: null };
    cursor = next;
  }
}

/** The events of a stream, as they arrive. If the connection breaks, throws the error that `describeBreak` makes. */
export async function* stream(
  method: string,
  path: string,
  body: unknown,
  describeBreak: (error: unknown) => Error,
): AsyncGenerator<EventSourceMessage> {
  const response = await request(method, path, body, 'PARLEY_API_KEY');
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  const decoder = new TextDecoder();
  for await (const bytes of chunks(response, describeBreak)) {
    parser.feed(decoder.decode(bytes, { stream: true }));
    yield* events.splice(0);
  }
}

export async function download(path: string): Promise<AsyncIterable<Uint8Array>> {
  return chunks(await request('GET', path, undefined, 'PARLEY_API_KEY'), cutShort);
}

async function* chunks(response: Response, describeBreak: (error: unknown) => Error): AsyncGenerator<Uint8Array> {
  for (const reader = response.body?.getReader(); reader !== undefined; ) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      throw describeBreak(error);
    });
    if (done) return;
    yield value;
  }
}

function cutShort(error: unknown): Error {
  return new Error('the server closed the connection in the middle of its answer', { cause: error });
}

/** The path where the routes of an agent begin, or those of the default agent. It contains the slug of the key's organization. */
export async function agentRoutes(agent: string | undefined): Promise<string> {
  const { organization } = await call<{ organization: { slug: string; default_agent: string | null } }>('GET', '/api/organization');
  return `/${organization.slug}/${encodeURIComponent(agent ?? organization.default_agent ?? '')}/v1`;
}

async function request(method: string, path: string, body: unknown, keyName: KeyName): Promise<Response> {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const headers = { ...authorization(keyName), ...(body === undefined ? {} : { 'content-type': 'application/json' }) };
  const response = await reach(path, { method, headers, ...content });
  if (response.ok) return response;
  throw new Error(await describeRefusal(response, keyName, path));
}

/** With a key that is not allowed in a header, `fetch` would fail as if there were no server. The audit log records the user agent. */
export function authorization(keyName: KeyName): Record<string, string> {
  const key = loadKey(keyName);
  if (!/^[\x21-\x7e]+$/.test(key.trim())) throw new Error(`${keyName}: a key has only letters, digits, _ and -`);
  return { authorization: `Bearer ${key}`, 'user-agent': 'parley-cli' };
}

/**
 * What the server answers, whether or not it refuses. Throws if none does. Redirects are not followed: `fetch` would drop the key on the way
 * to another origin, and turn a POST into a GET.
 */
export async function reach(path: string, init: RequestInit): Promise<Response> {
  const { url, urlSettings } = loadClientSettings();
  if (/^https?:\/\/[^/?#]*@/.test(url)) throw new Error(`${urlSettings}: must give a URL without a user name and a password`);
  if (!/^https?:/.test(url) || !URL.canParse(url))
    throw new Error(`${urlSettings}: must give a URL such as http://127.0.0.1:8080, not ${url}`);
  const response = await fetch(url + path, { ...init, redirect: 'manual' }).catch((error: unknown) => {
    throw new Error(`no Parley server at ${url}: ${fetchReason(error)} (set PARLEY_URL, or start one with npm start)`, { cause: error });
  });
  const location = response.headers.get('location');
  if (response.status < 300 || response.status > 399 || location === null) return response;
  throw new Error(`${url} redirects to ${location}; set PARLEY_URL to where the server is`);
}

/** Why there is no answer: `fetch` itself says only that it failed. */
export function fetchReason(error: unknown): string {
  const cause = causesOf(error).at(-1);
  return errorCode(cause) ?? errorMessage(cause);
}

export async function describeRefusal(response: Response, keyName: KeyName, path: string): Promise<string> {
  const text = await response.text();
  if (response.status === 401) return `the server does not accept this ${keyName}`;
  if (response.status === 404) return describeNotFound(path.split('?')[0] ?? path);
  const answer = parseJson(text);
  const said = isRecord(answer) ? detailText(answer) : undefined;
  if (said !== undefined) return said;
  const status = `HTTP ${response.status} ${text.slice(0, 200)}`.trim();
  // A proxy answers so for a Parley that is down.
  return response.status >= 500 ? status : describeStranger(status);
}

/** `said` is what made another program of it. */
export function describeStranger(said?: string): string {
  const { url } = loadClientSettings();
  return `what answers at ${url} is not Parley; set PARLEY_URL, or PORT to a free one${said === undefined ? '' : ` (${said})`}`;
}

export function describeNotFound(path: string): string {
  const { url } = loadClientSettings();
  const { pathname } = new URL(url);
  // Someone may have set it to the base URL of a client library, which ends with a path such as /v1.
  if (pathname !== '/') return `not found: ${url}${path} (does ${pathname} belong in PARLEY_URL?)`;
  if (path === '/v1/sessions') return `not found: ${path} (is there no default agent? name one: parley chat <agent>)`;
  if (path.endsWith('/v1/sessions'))
    return `not found: ${path} (no such agent, or it has no active release, or this session is of another; see: parley agents list)`;
  // These are there for every key, but with split hosts on one host only.
  if (/^\/(api|operator)\/[a-z_]+$/.test(path)) return `not found: ${path} (is PARLEY_URL at the PARLEY_MANAGEMENT_HOST of the server?)`;
  return `not found: ${path}`;
}

/** The message of an error body. The route that mints session tokens has no `detail` around it. */
function detailText({ detail, message }: { detail?: string | { message?: string }; message?: string }): string | undefined {
  return (typeof detail === 'string' ? detail : detail?.message) ?? message;
}
