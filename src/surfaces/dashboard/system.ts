import { createRequire } from 'node:module';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { requireKey } from '../shared/caller/authenticate.ts';
import type { Server } from '../shared/fastify.ts';

const { version } = createRequire(import.meta.url)('../../../package.json');

/** Facts about this process and its settings. Every org can read them, so they contain nothing of other orgs and no secret. */
export function systemRoute(server: Server, context: Context): void {
  const startedAt = new Date(Date.now() - process.uptime() * 1000);

  server.get(
    '/dashboard/api/system',
    { config: { family: 'management' }, onRequest: [requireKey(context, 'organization:read')], schema: { hide: true } },
    async () => {
      const { config, database } = context;
      return {
        version: String(version),
        node: process.version,
        database: database.engine === 'pglite' ? 'PGlite, embedded' : 'PostgreSQL',
        platform: `${process.platform} ${process.arch}`,
        started_at: timestamp(startedAt),
        process_id: context.processId,
        memory_bytes: process.memoryUsage.rss(),
        gateway: config.PARLEY_GATEWAY,
        rate_limit_rps: config.PARLEY_RATE_LIMIT_RPS,
        max_turns: config.PARLEY_MAX_TURNS,
        webhook_max_failures: config.PARLEY_WEBHOOK_MAX_FAILURES,
        private_upstreams: config.PARLEY_ALLOW_PRIVATE_UPSTREAMS,
        public_url: config.PARLEY_PUBLIC_URL ?? null,
      };
    },
  );
}
