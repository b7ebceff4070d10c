import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '../../src/logger.ts';
import { createTracing } from '../../src/tracing.ts';
import { serveLocally } from '../support/local-server.ts';

test('traces that nobody takes are told, and keep nobody from stopping', async (t) => {
  const wrong = await serveLocally((_request, response) => response.writeHead(404).end());
  t.after(() => wrong.close());
  const lines: string[] = [];
  const tracing = await createTracing(wrong.origin, createLogger('warn', { write: (line) => lines.push(JSON.parse(line).msg) }));
  tracing.turnStarted('turn_1', { orgId: 1, sessionId: 'ses_1', agentSlug: 'assistant' });
  tracing.turnEnded('turn_1', undefined);
  await tracing.close();
  assert.deepEqual(lines, ['could not send traces to OTEL_EXPORTER_OTLP_ENDPOINT']);
});
