import type { Answer } from './exchange.ts';

/** Follows redirects as fetch would, but through `send`, so that each hop is checked like the first. */
export async function followRedirects(
  url: URL,
  init: RequestInit,
  limit: number,
  send: (url: URL, init: RequestInit) => Promise<Answer>,
): Promise<Answer> {
  let current = url;
  let options = init;
  for (let hop = 0; ; hop += 1) {
    const answer = await send(current, options);
    const location = redirectStatuses.has(answer.status) ? answer.headers.get('location') : null;
    if (location === null || limit === 0) return answer;
    await answer.body?.cancel();
    if (hop === limit) throw new TypeError(`The destination redirected more than ${limit} times`);
    const next = URL.parse(location, current.href);
    if (next === null) throw new TypeError('The destination redirected to something that is not a URL');
    options = optionsOfNextHop(options, answer.status, next.origin === current.origin);
    current = next;
  }
}

function optionsOfNextHop(init: RequestInit, status: number, isSameOrigin: boolean): RequestInit {
  const headers = new Headers(init.headers);
  const method = (init.method ?? 'GET').toUpperCase();
  const next: RequestInit = { ...init, method, headers };
  if (!isSameOrigin) for (const name of [...headers.keys()]) if (!harmlessHeaders.has(name)) headers.delete(name);
  const becomesGet = (status === 303 && method !== 'HEAD') || (status < 303 && method === 'POST');
  if (becomesGet) {
    next.method = 'GET';
    delete next.body;
    for (const name of bodyHeaders) headers.delete(name);
  } else if (typeof next.body === 'object' && next.body !== null && !ArrayBuffer.isView(next.body)) {
    throw new TypeError('The destination redirected a request whose body cannot be sent again');
  }
  return next;
}

const redirectStatuses = new Set([301, 302, 303, 307, 308]);
/** Sent on to another origin. Any other header may be a credential: many APIs take theirs in one of their own, such as `X-Api-Key`. */
const harmlessHeaders = new Set(['accept', 'accept-language', 'content-type', 'content-language', 'user-agent', 'range']);
const bodyHeaders = ['content-type', 'content-length', 'content-encoding', 'content-language', 'content-location'];
