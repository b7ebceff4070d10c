import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Organization } from '../../accounts/principal.ts';
import type { Context } from '../../context.ts';
import { notFound, ServiceError } from '../../errors.ts';
import { fieldOf, isRecord, parseJson } from '../../text/json.ts';
import { unauthorized } from '../shared/caller/authenticate.ts';
import { dashboardMember } from '../shared/caller/dashboard-member.ts';
import { requireOwnAddress } from '../shared/caller/own-address.ts';
import type { Server } from '../shared/fastify.ts';
import { maxEmailLength, strangersBodyLimit } from '../shared/schemas/fields.ts';
import { hostOf } from '../shared/server/host-header.ts';

const config = { family: 'management' as const };

/** Signing in to the dashboard, and who is signed in. Only the dashboard uses these, so the OpenAPI document leaves them out. */
export function signInRoutes(server: Server, context: Context): void {
  server.route({
    method: ['GET', 'POST'],
    url: '/auth/*',
    config,
    bodyLimit: strangersBodyLimit,
    onRequest: [requireOwnAddress(context.config)],
    schema: { hide: true },
    handler: (request, reply) => handleByLibrary(context, request, reply),
  });

  server.get('/dashboard/session', { config, schema: { hide: true } }, async (request) => {
    const signedIn = await dashboardMember(context, request);
    if (signedIn === undefined) throw unauthorized();
    const { principal, name, organizations } = signedIn;
    return {
      user: { id: principal.userId, email: principal.email, name },
      organization: showOrganization(principal.organization),
      role: principal.role,
      scopes: [...principal.scopes],
      organizations: organizations.map(({ organization, role }) => ({ ...showOrganization(organization), role })),
    };
  });
}

function showOrganization({ id, slug, name, status }: Organization) {
  return { id, slug, name, status };
}

/** The sign-in library handles these requests, as fetch requests and responses. */
async function handleByLibrary(context: Context, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  // As it was sent: the library does not decode it, and counts the requests to each spelling by themselves.
  const path = request.url.split('?', 1)[0]?.slice('/auth/'.length) ?? '';
  if (!context.signIn.serves(`/${path}`)) throw notFound();
  if (request.method === 'POST' && request.headers.cookie !== undefined && request.headers['x-parley-dashboard'] !== '1')
    throw new ServiceError('forbidden', 'Requests with a cookie must send X-Parley-Dashboard: 1');
  const email = path === 'sign-in/email' ? emailOf(request.body) : undefined;
  const fetchRequest = toFetchRequest(request, path === 'change-password' ? endOtherSessions(request.body) : request.rawBody);
  const response = await (email === undefined ? context.signIn.handle(fetchRequest) : countedSignIn(context, email, fetchRequest));
  // The library does not know the path with this method.
  if (response.status === 404) throw notFound();
  return answerWith(reply, response);
}

/** Signs in. Counts as a guess at the account's password, unless nobody looked at the password. */
async function countedSignIn(context: Context, email: string, request: Request): Promise<Response> {
  const { guesses } = context.signIn;
  const response = await guesses.during(email, () => context.signIn.signIn(email, request));
  if (response.ok) guesses.forget(email);
  // The library refuses a client that tries too often before it looks at the password.
  if (response.status === 429) guesses.takeBack(email);
  return response;
}

/** Whoever signed in with the old password, perhaps a thief of it, is signed out: the library does this only when it is asked to. */
function endOtherSessions(body: unknown): string {
  return JSON.stringify(isRecord(body) ? { ...body, revokeOtherSessions: true } : body);
}

function toFetchRequest(request: FastifyRequest, body: string): Request {
  const headers = new Headers();
  for (const name of ['cookie', 'origin', 'referer', 'user-agent', 'sec-fetch-site', 'sec-fetch-mode', 'sec-fetch-dest']) {
    const value = request.headers[name];
    if (typeof value === 'string') headers.set(name, value);
  }
  // The library counts attempts per client address, which it reads from this header. It is set here, so clients cannot forge it.
  headers.set('x-parley-client', request.ip);
  const init: RequestInit = { method: request.method, headers };
  if (request.method === 'POST') {
    headers.set('content-type', 'application/json');
    init.body = body === '' ? '{}' : body;
  }
  return new Request(new URL(request.url, `http://${hostOf(request)}`), init);
}

/** Passes on the library's cookies, and gives its errors the shape of ours. */
async function answerWith(reply: FastifyReply, response: Response): Promise<FastifyReply> {
  for (const cookie of response.headers.getSetCookie()) reply.header('set-cookie', cookie);
  const retryAfter = response.headers.get('x-retry-after');
  if (retryAfter !== null) reply.header('retry-after', retryAfter).header('x-should-retry', 'true');
  const text = await response.text();
  reply.code(response.status).header('cache-control', 'no-store').type('application/json; charset=utf-8');
  return reply.send(response.ok ? withoutToken(text) : JSON.stringify({ detail: messageOf(text, response.status) }));
}

/** The session's token must be only in the HttpOnly cookie, which scripts cannot read. */
function withoutToken(text: string): string {
  if (text === '') return 'null';
  return JSON.stringify(JSON.parse(text), (key, value) => (key === 'token' ? undefined : value));
}

function messageOf(text: string, status: number): string {
  const message = fieldOf(parseJson(text), 'message');
  if (typeof message === 'string') return message;
  return status === 429 ? 'Too many attempts' : 'Refused';
}

/** Undefined for text that cannot be an account's address. Counted attempts take memory, and anybody can send any text. */
function emailOf(body: unknown): string | undefined {
  const email = fieldOf(body, 'email');
  return typeof email === 'string' && email.length <= maxEmailLength && email.includes('@') ? email : undefined;
}
