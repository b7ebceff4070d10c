import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { test } from 'node:test';
import { emptyState } from '../../../src/session/state.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { createTracing } from '../../../src/telemetry/tracing.ts';
import { serveLocally } from '../../support/local-server.ts';

const collectors: [name: string, answer: RequestListener][] = [
  ['refuses', (_request, response) => response.writeHead(404).end()],
  ['does not answer', () => {}],
];
for (const [name, answer] of collectors) {
  test(`traces that a collector ${name} are told, and keep nobody from stopping`, async (t) => {
    const collector = await serveLocally(answer);
    t.after(() => collector.close());
    const lines: string[] = [];
    const tracing = await createTracing(collector.origin, createLogger('warn', { write: (line) => lines.push(JSON.parse(line).msg) }));
    tracing.turnStarted('turn_1', { orgId: 1, sessionId: 'ses_1', agentSlug: 'assistant' });
    tracing.turnEnded('turn_1', emptyState());
    const begun = performance.now();
    await tracing.close();
    assert.ok(performance.now() - begun < 6_000);
    assert.deepEqual(lines, ['could not send traces to OTEL_EXPORTER_OTLP_ENDPOINT']);
  });
}
