import type { FastifyRequest } from 'fastify';

/** What the Host header says and nothing else: Fastify's `host` is X-Forwarded-Host behind a trusted proxy, which passes on what clients send. */
export function hostOf(request: FastifyRequest): string {
  return request.headers.host ?? '';
}
