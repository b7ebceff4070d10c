import { ServiceError } from '../errors.ts';

/** First path segments of our own routes, with which `/{org}/{agent}/v1` must not be confused. */
const reserved = new Set(['v1', 'api', 'operator', 'auth', 'docs', 'dashboard', 'widget', 'healthz', 'readyz', 'metrics', 'assets']);

/** Also checked before a slug from a URL is used in a query. */
export function isSlug(value: string): boolean {
  return /^[a-z0-9][a-z0-9_-]{0,62}$/.test(value);
}

export function assertSlug(slug: string): void {
  if (!isSlug(slug)) throw new ServiceError('invalid', 'slug: must be 1 to 63 of a-z 0-9 _ - and start with a letter or digit');
}

export function assertOrganizationSlug(slug: string): void {
  assertSlug(slug);
  if (reserved.has(slug)) throw new ServiceError('invalid', `slug: "${slug}" is reserved`);
}
