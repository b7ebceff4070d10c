// What `request` makes of an answer that is not JSON.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, ParleyClient, ParleyError } from '../../../client/src/index.ts';

function clientOf(answer: () => Response): ParleyClient {
  return new ParleyClient({ baseUrl: 'http://127.0.0.1', apiKey: 'a', fetch: async () => answer() });
}

test('CSV is its text', async () => {
  const csv = 'id,action\r\n1,agent.created\r\n';
  for (const answer of [csv, '"{""detail"": 1}"', '1']) {
    const client = clientOf(() => new Response(answer, { headers: { 'content-type': 'text/csv; charset=utf-8' } }));
    const text: string = await client.request('GET /api/audit_events.csv');
    assert.equal(text, answer);
  }
});

test('a stream of events is refused with the methods that read one, asked for once, and not read', async () => {
  let asked = 0;
  let cancelled = 0;
  const client = clientOf(() => {
    asked += 1;
    // Nothing ever comes, as in a log to which nothing is added.
    const body = new ReadableStream({
      cancel() {
        cancelled += 1;
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream; charset=utf-8' } });
  });
  const path = { org: 'demo', agent: 'assistant' };
  await assert.rejects(
    client.request('POST /{org}/{agent}/v1/chat/completions', {
      path,
      body: { messages: [{ role: 'user', content: 'hi' }], stream: true },
    }),
    (error) => error instanceof ParleyError && !(error instanceof ApiError) && /messages\.stream.*managed\.events/.test(error.message),
  );
  // @ts-expect-error A route that only streams has no answer that `request` could return.
  const following = client.request('GET /{org}/{agent}/v1/managed-agents/sessions/{session_id}/events/stream', {
    path: { ...path, session_id: 'ses_1' },
  });
  await assert.rejects(following, /managed\.events/);
  assert.deepEqual([asked, cancelled], [2, 2]);
});
