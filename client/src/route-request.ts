import type { Routes } from './openapi.ts';
import type { RequestOptions } from './options.ts';
import type { Call } from './transport.ts';

/** What a route wants: the names in its path, its query, its body; none of what it does not have. */
export type RouteCall<Name extends keyof Routes> = RequestOptions &
  (Record<string, never> extends Routes[Name]['path'] ? { path?: undefined } : { path: Routes[Name]['path'] }) &
  (undefined extends Routes[Name]['body'] ? { body?: undefined } : { body: Routes[Name]['body'] }) & { query?: Routes[Name]['query'] };

/** A route that needs nothing is called by its name alone. */
export type RouteArguments<Name extends keyof Routes> =
  Record<string, never> extends RouteCall<Name> ? [call?: RouteCall<Name>] : [call: RouteCall<Name>];

interface AnyCall extends RequestOptions {
  path?: Record<string, string | number> | undefined;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
}

/** `GET /api/agents/{slug}` with its names filled in, as the transport takes it. */
export function routeRequest(route: string, { path = {}, ...call }: AnyCall = {}): [method: string, path: string, call: Call] {
  const [method = '', template = ''] = route.split(' ');
  const filled = template.replace(/\{(\w+)\}/g, (_all, name: string) => {
    const value = path[name];
    if (value === undefined || value === '') throw new TypeError(`${route} needs path.${name}`);
    return encodeURIComponent(value);
  });
  return [method, filled, call];
}
