import type { FastifyRequest } from 'fastify';

/** Whether a browser asks for a page: programs do not say that they accept HTML. */
export function wantsPage({ headers }: FastifyRequest): boolean {
  return headers.accept?.includes('text/html') ?? false;
}
