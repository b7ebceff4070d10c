import type { FastifyRequest } from 'fastify';

/** From the Host header only: behind a trusted proxy, Fastify's `request.host` is X-Forwarded-Host, which a client may have set. */
export function hostOf(request: FastifyRequest): string {
  return request.headers.host ?? '';
}
