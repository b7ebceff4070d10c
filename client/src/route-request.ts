import type { Routes } from './openapi.ts';
import type { RequestOptions } from './options.ts';
import type { Call } from './transport.ts';

/**
 * The arguments of a route: its path parameters, query and body, each only where the route has it. `undefined extends ...` would
 * not do: in a project without `strict` it holds for every type, and no route would take a body.
 */
export type RouteCall<Name extends keyof Routes> = RequestOptions &
  (Record<string, never> extends Routes[Name]['path'] ? { path?: undefined } : { path: Routes[Name]['path'] }) &
  (Routes[Name]['body'] extends undefined ? { body?: undefined } : { body: Routes[Name]['body'] }) & { query?: Routes[Name]['query'] };

/** The second argument may be left out where the route requires nothing. */
export type RouteArguments<Name extends keyof Routes> =
  Record<string, never> extends RouteCall<Name> ? [call?: RouteCall<Name>] : [call: RouteCall<Name>];

interface AnyCall extends RequestOptions {
  path?: Record<string, string | number> | undefined;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
}

/** Fills in the path parameters of a route such as `GET /api/agents/{slug}`; returns the arguments of `Transport.json`. */
export function routeRequest(route: string, { path = {}, ...call }: AnyCall = {}): [method: string, path: string, call: Call] {
  const [method = '', template = ''] = route.split(' ');
  const filled = template.replace(/\{(\w+)\}/g, (_all, name: string) => {
    const value = path[name];
    if (value === undefined || value === '') throw new TypeError(`${route} needs path.${name}`);
    return encodeURIComponent(value);
  });
  return [method, filled, call];
}
