// What a proxy answers in the server's place while it does not reach the server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, ParleyClient, TurnText } from '../../../client/src/index.ts';

/** A client that gets these responses, one after the other, and the idempotency keys of its requests. */
function clientOf(...responses: Response[]): { client: ParleyClient; keys: Set<string | null>; left: Response[] } {
  const keys = new Set<string | null>();
  const fetch: typeof globalThis.fetch = async (_url, init) => {
    keys.add(new Headers(init?.headers).get('idempotency-key'));
    return responses.shift() ?? assert.fail('One request too many');
  };
  return { client: new ParleyClient({ baseUrl: 'http://127.0.0.1', apiKey: 'a', fetch }), keys, left: responses };
}

const badGateway = () => new Response('<html><h1>502 Bad Gateway</h1></html>', { status: 502 });

/** A stream of a turn that ends with its last event, or is cut after the given number of them. */
function turn(events = 3): Response {
  const all = [
    { type: 'step_start', session_id: 'ses_1', data: { step: 1, agent: 'main' } },
    { type: 'text', session_id: 'ses_1', data: { part: { type: 'text', text: 'Hello' } } },
    { type: 'done', data: { usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } } },
  ];
  const frames = all.slice(0, events).map((event) => `data: ${JSON.stringify(event)}\n\n`);
  return new Response(frames.join(''));
}

test('a turn whose stream is cut goes on after a proxy has said that the server is not there', async () => {
  const { client, keys } = clientOf(turn(1), badGateway(), new Response('', { status: 504 }), turn());
  const text = new TurnText();
  for await (const event of client.messages.stream('ses_1', 'hi')) text.add(event);
  assert.deepEqual([text.text, keys.size], ['Hello', 1]);
});

test('a 502 of the server itself is not tried again, whether or not it says so', async () => {
  for (const headers of [new Headers({ 'x-should-retry': 'false' }), new Headers()]) {
    const { client, left } = clientOf(Response.json({ detail: 'The MCP server is away.' }, { status: 502, headers }), badGateway());
    await assert.rejects(client.sessions.create(), (error) => error instanceof ApiError && error.message === 'The MCP server is away.');
    assert.equal(left.length, 1);
  }
});
