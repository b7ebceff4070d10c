import type { FastifySchema } from 'fastify';
import type { TSchema } from 'typebox';
import { Type } from '../shared/schemas/type.ts';

/** Routes that an end user's session token may call too. */
const tokenRoutes = /^\/:org\/:agent\/v1\/(managed-agents|chat|models|responses)/;
/** Routes that can refuse for the budget: those that start a turn, and the one that mints a token. */
const budgetedRoutes = /\/(messages|events|completions|responses|session_tokens)$/;

/** Routes that wait for a model or an MCP server. */
const upstreamRoutes = /\/(messages|completions|responses|mcp)$/;

const successDescriptions: Record<string, string> = { 200: 'OK', 201: 'Created', 202: 'Accepted', 204: 'Done; no content' };

const idempotencyKey = {
  'idempotency-key': Type.Optional(
    Type.String({
      maxLength: 255,
      description: 'Repeating a request with the same key and body within 24 h returns the first response and does nothing twice.',
    }),
  ),
};
/** Headers that only one route reads. */
const ownHeaders: [url: RegExp, headers: Record<string, TSchema>][] = [
  [/\/mcp$/, { 'x-svc-session': Type.String({ description: 'The session whose MCP servers are used.' }) }],
  [/\/chat\/completions$/, { 'x-svc-session': Type.Optional(Type.String({ description: 'The session to continue.' })) }],
  [/\/events\/stream$/, { 'last-event-id': Type.Optional(Type.String({ description: 'Same as `after`; the larger one wins.' })) }],
];

/** What the document says about a route besides its own schema: its operation id, scopes, errors and credentials. */
export function documentRoute(
  method: string,
  url: string,
  schema: FastifySchema,
  scopes: readonly string[],
  badBody = 'invalid',
): Record<string, unknown> {
  const needs = scopes.length === 0 ? '' : `Needs the scope ${scopes.map((scope) => `\`${scope}\``).join(' and ')}.`;
  const description = [schema.description, needs].filter((text) => text !== undefined && text !== '').join(' ');
  return {
    operationId: schema.operationId ?? operationId(method, url),
    ...(description === '' ? {} : { description }),
    ...(scopes.length === 0 ? {} : { 'x-scopes': scopes }),
    ...(tokenRoutes.test(url) ? { security: [{ apiKey: [] }, { sessionToken: [] }] } : {}),
    ...headersOf(method, url, schema),
    response: answersOf(method, url, schema.response, badBody),
  };
}

function headersOf(method: string, url: string, { security }: FastifySchema): { headers?: TSchema } {
  const own = ownHeaders.find(([pattern]) => pattern.test(url))?.[1];
  const headers = { ...(method === 'POST' && security === undefined ? idempotencyKey : {}), ...own };
  return Object.keys(headers).length === 0 ? {} : { headers: Type.Object(headers) };
}

/** The scopes that the route's hooks require, which each hook has as a property. */
export function scopesOfHooks(hooks: unknown): string[] {
  return [hooks]
    .flat()
    .flatMap((hook: unknown) => (typeof hook === 'function' && 'scopes' in hook && Array.isArray(hook.scopes) ? hook.scopes : []));
}

/** The route's answers without the errors that it cannot return. */
function answersOf(method: string, url: string, response: unknown, badBody: string): Record<string, unknown> {
  const answers: Record<string, TSchema> = { ...(typeof response === 'object' ? response : {}) };
  const isRead = method === 'GET' || method === 'HEAD';
  if (badBody === 'bad-request' && answers[422] !== undefined) {
    answers[400] = answers[422];
    // On these routes a 422 only means that the Idempotency-Key was used for another request, and only a POST takes such a key.
    if (method !== 'POST') delete answers[422];
  }
  for (const [status, schema] of Object.entries(answers)) {
    const impossible =
      (status === '402' && (isRead || !budgetedRoutes.test(url))) ||
      ((status === '413' || status === '415') && (isRead || method === 'DELETE')) ||
      (status === '502' && (isRead || !upstreamRoutes.test(url))) ||
      (status === '409' && isRead);
    if (impossible) delete answers[status];
    else if (successDescriptions[status] !== undefined)
      answers[status] = { ...schema, description: Reflect.get(schema, 'description') ?? successDescriptions[status] };
  }
  return answers;
}

/** `GET /api/agents/:slug` is `getApiAgentsBySlug`. */
function operationId(method: string, url: string): string {
  const words = url
    .split(/[/._-]/)
    .filter((word) => word !== '' && word !== '*')
    .map((word) => (word.startsWith(':') ? `By${capital(word.slice(1))}` : capital(word)));
  return method.toLowerCase() + words.join('');
}

function capital(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}
