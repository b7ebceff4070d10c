import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { test } from 'node:test';
import { type Model, type ModelCall, ModelError } from '../../../src/harness/model.ts';
import { TurnAborted } from '../../../src/harness/turn-world.ts';
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

interface SentSpan {
  name: string;
  kind: number;
  status: { code: number };
  attributes: { key: string; value: { stringValue?: string } }[];
}

test('the call of a model is a span of the kind and the names that the conventions give it, and no error where it was stopped', async (t) => {
  const received: string[] = [];
  const collector = await serveLocally(async (request, response) => {
    received.push(Buffer.concat(await request.toArray()).toString());
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  t.after(() => collector.close());
  const tracing = await createTracing(collector.origin, createLogger('silent'));
  const call = async (provider: string, name: string, failure?: Error) => {
    const model: Model = {
      provider,
      name,
      contextLimit: 1_000,
      async *stream() {
        yield { type: 'text-delta', text: 'word' };
        if (failure !== undefined) throw failure;
      },
    };
    const parts = tracing.traced(model, 'ses_1').stream({} as ModelCall, new AbortController().signal);
    try {
      for await (const _part of parts);
    } catch (error) {
      assert.equal(error, failure);
    }
  };
  await call('offline', 'demo');
  await call('google', 'gemini');
  await call('openai', 'stopped', new TurnAborted('interrupted'));
  await call('openai', 'let go', new TurnAborted('released'));
  await call('openai', 'slow', new TurnAborted('timeout'));
  await call('openai', 'busy', new ModelError('overloaded', 'openai', 'Try later.'));
  await tracing.close();
  const spans: SentSpan[] = received.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans);
  const [internal, client] = [1, 3];
  const [unset, error] = [0, 2];
  assert.deepEqual(
    spans.map(({ name, kind, status, attributes }) => {
      const values = new Map(attributes.map(({ key, value }) => [key, value.stringValue]));
      const of = ['gen_ai.provider.name', 'gen_ai.conversation.id', 'error.type'].map((key) => values.get(key));
      return [name, kind, status.code, ...of];
    }),
    [
      ['chat demo', internal, unset, 'offline', 'ses_1', undefined],
      ['chat gemini', client, unset, 'gcp.gemini', 'ses_1', undefined],
      ['chat stopped', client, unset, 'openai', 'ses_1', undefined],
      ['chat let go', client, unset, 'openai', 'ses_1', undefined],
      ['chat slow', client, error, 'openai', 'ses_1', 'timeout'],
      ['chat busy', client, error, 'openai', 'ses_1', 'overloaded'],
    ],
  );
});
