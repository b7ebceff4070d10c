// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startApp } from '../support/app.ts';
import { serveLocally } from '../support/local-server.ts';

test('a turn is a span with its model calls below it, and holds nothing that was said', async (t) => {
  const received: string[] = [];
  const collector = await serveLocally((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    request.on('end', () => {
      received.push(body);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  t.after(() => collector.close());
  const app = await startApp(t, { settings: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.origin } });
  await app.request('POST', '/v1/sessions', { session_id: 'traced' });
  const answer = await app.request('POST', '/v1/sessions/traced/messages', { text: '/say a-very-private-word' });
  assert.equal(answer.status, 200);
  await app.request('POST', '/v1/sessions/traced/messages', { text: '/fail unauthorized' });
  await app.close();

  const text = received.join('');
  assert.match(text, /"key":"service.name","value":\{"stringValue":"parley"\}/);
  const spans = received.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans);
  const turn = spans.find((span) => span.name === 'invoke_agent assistant');
  const model = spans.find((span) => span.name === 'chat demo');
  assert.equal(model.parentSpanId, turn.spanId);
  const attributes = new Map(model.attributes.map((entry: { key: string; value: unknown }) => [entry.key, entry.value]));
  assert.deepEqual(attributes.get('gen_ai.provider.name'), { stringValue: 'offline' });
  assert.ok(attributes.has('gen_ai.usage.output_tokens'));
  assert.ok(!text.includes('a-very-private-word'));
  const failed = spans.filter((span) => span.name === 'invoke_agent assistant').at(-1);
  assert.deepEqual(failed.attributes.at(-1), { key: 'error.type', value: { stringValue: 'byok_key_rejected' } });
});
