import type { FastifyRequest } from 'fastify';

/** Whether a person's browser asks, and not a program: only the former says that it takes HTML. */
export function wantsPage({ headers }: FastifyRequest): boolean {
  return headers.accept?.includes('text/html') ?? false;
}
