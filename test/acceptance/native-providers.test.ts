// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { serveLocally } from '../support/local-server.ts';
import { createTenant } from '../support/tenants.ts';

const app = await startApp({ after }, { settings: { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
const url = await app.listen();

test('a provider that limits or is overloaded is 429 and 503 with Retry-After, a broken answer is 502', async () => {
  const tenant = await createTenant(url);
  const cases = [
    { code: 'rate_limited', status: 429, waits: true },
    { code: 'overloaded', status: 503, waits: true },
    { code: 'broken_stream', status: 502, waits: false },
  ];
  await Promise.all(
    cases.map(async ({ code, status, waits }) => {
      const id = await tenant.session();
      const answer = await tenant.post(`/v1/sessions/${id}/messages`, { text: `/fail ${code}` });
      assert.equal(answer.status, status);
      assert.equal(answer.body.detail.error, code);
      assert.equal(typeof answer.body.detail.message, 'string');
      assert.equal(/^[1-9]\d*$/.test(answer.headers.get('retry-after') ?? ''), waits);
      const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: `/fail ${code}`, stream: true })).rest();
      assert.deepEqual(
        frames.filter((frame) => frame.event === 'error').map((frame) => frame.data.data.code),
        [code],
      );
      assert.equal(frames.at(-1)?.event, 'error');
      assert.equal((await tenant.say(id, '/say on we go')).text, 'on we go');
    }),
  );
});

test("a customer's key that the provider rejects is 422 byok_key_rejected, and an error event in a stream", async (context) => {
  const keys: (string | undefined)[] = [];
  const provider = await serveLocally((incoming, outgoing) => {
    keys.push(incoming.headers.authorization);
    incoming.resume();
    outgoing
      .writeHead(401, { 'content-type': 'application/json' })
      .end('{"error":{"message":"Incorrect API key","type":"invalid_request_error"}}');
  });
  context.after(() => provider.close());
  const model = { provider: 'openai-compatible', name: 'm', base_url: `${provider.origin}/v1` };
  const tenant = await createTenant(url);
  const stored = await tenant.put('/api/model_credentials/openai-compatible', { api_key: 'sk-customer-secret-1234' });
  assert.equal(stored.status, 200, stored.text);
  await tenant.release({ model });
  const id = await tenant.session();
  const answer = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi' });
  assert.equal(answer.status, 422, answer.text);
  const { message, ...rest } = answer.body.detail;
  assert.deepEqual(rest, { error: 'byok_key_rejected', provider: 'openai-compatible' });
  assert.equal(typeof message, 'string');
  const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: 'hi', stream: true })).rest();
  const failure = frames.at(-1)?.data;
  assert.deepEqual({ ...failure.data, message: '' }, { code: 'byok_key_rejected', provider: 'openai-compatible', message: '' });
  assert.ok(keys.length > 0 && keys.every((key) => key === 'Bearer sk-customer-secret-1234'));
  assert.ok(!answer.text.includes('sk-customer-secret'), 'the key is in no answer');
  assert.ok(!JSON.stringify(frames).includes('sk-customer-secret'));
});

test('a conversation that does not fit the model is 422 context_length_exceeded', async (context) => {
  const provider = await serveLocally((incoming, outgoing) => {
    incoming.resume();
    outgoing
      .writeHead(400, { 'content-type': 'application/json' })
      .end('{"error":{"message":"Too long","type":"invalid_request_error","code":"context_length_exceeded"}}');
  });
  context.after(() => provider.close());
  const tenant = await createTenant(url, { model: { provider: 'openai-compatible', name: 'm', base_url: `${provider.origin}/v1` } });
  const answer = await tenant.post(`/v1/sessions/${await tenant.session()}/messages`, { text: 'hi' });
  assert.deepEqual([answer.status, answer.body.detail?.error], [422, 'context_length_exceeded'], answer.text);
});

test('what a provider says that cannot be stored is stored without it: its turn does not begin again and again', async (context) => {
  const usage = { prompt_tokens: 5, completion_tokens: 1 };
  const said = (message: object, counted: object = usage) => ({ choices: [{ message, finish_reason: 'stop' }], usage: counted });
  const calls = (name: string, extra: object) => ({ tool_calls: [{ function: { name, arguments: '{}' }, extra_content: extra }] });
  let asked = 0;
  const provider = await serveLocally(async (incoming, outgoing) => {
    const { messages } = JSON.parse(Buffer.concat(await incoming.toArray()).toString('utf8'));
    asked += 1;
    const first: Record<string, [status: number, body: object]> = {
      usage: [200, said({ content: 'hi' }, { prompt_tokens: -5_000, completion_tokens: 1.5 })],
      name: [200, said(calls('ba\0sh\ud800', {}))],
      extra: [200, said(calls('bash', { signature: 'a\0b\ud800' }))],
      failure: [400, { error: { message: 'no\0thing' } }],
    };
    const [status, body] = first[messages.at(-1).content] ?? [200, said({ content: 'done' })];
    outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  context.after(() => provider.close());
  const model = { provider: 'openai-compatible', name: 'm', base_url: provider.origin };
  const tenant = await createTenant(url, { model, permissions: { mode: 'locked', rules: [] } });
  for (const [text, calls] of Object.entries({ usage: 1, name: 2, extra: 2 })) {
    asked = 0;
    assert.equal((await tenant.say(await tenant.session(), text)).text, text === 'usage' ? 'hi' : 'done');
    assert.equal(asked, calls, text);
  }
  const failed = await tenant.post(`/v1/sessions/${await tenant.session()}/messages`, { text: 'failure' });
  assert.deepEqual([failed.status, failed.body.detail.error], [502, 'invalid_model_request']);
  assert.ok((await tenant.get('/api/budget')).body.budget.tokens_used > 0);
});

test('of an answer that broke off and was asked for again only the last attempt counts, and whoever watches is told', async (context) => {
  /** What each attempt says; all but the last break off. */
  const scripts: Record<string, string[]> = {
    same: ['The sea ', 'The sea is blue.'],
    other: ['The sea ', 'The hill.'],
    shorter: ['The sea is ', 'The sea'],
    twice: ['The sea ', 'A hill ', 'A hill is green.'],
  };
  const shown: Record<string, string[]> = {
    same: ['<1>', 'The sea ', 'is blue.'],
    other: ['<1>', 'The sea ', '<1>', 'The hill.'],
    shorter: ['<1>', 'The sea is ', '<1>', 'The sea'],
    twice: ['<1>', 'The sea ', '<1>', 'A hill ', 'is green.'],
  };
  const asked = new Map<string, number>();
  const provider = await serveLocally(async (incoming, outgoing) => {
    const name: string = JSON.parse(Buffer.concat(await incoming.toArray()).toString('utf8')).messages.at(-1).content;
    const attempt = asked.get(name) ?? 0;
    asked.set(name, attempt + 1);
    const chunk = (delta: object, finish: string | null) => `data: ${JSON.stringify({ choices: [{ delta, finish_reason: finish }] })}\n\n`;
    const isLast = attempt === (scripts[name]?.length ?? 0) - 1;
    outgoing.setHeader('content-type', 'text/event-stream');
    outgoing.end(chunk({ content: scripts[name]?.[attempt] }, null) + (isLast ? chunk({}, 'stop') : ''));
  });
  context.after(() => provider.close());
  const tenant = await createTenant(url, { model: { provider: 'openai-compatible', name: 'm', base_url: provider.origin } });
  await Promise.all(
    Object.entries(scripts).map(async ([name, said]) => {
      const id = await tenant.session();
      const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: name, stream: true })).rest();
      const words = frames.map(({ event, data }) => (event === 'step_start' ? `<${data.data.step}>` : (data.data.part?.text ?? event)));
      assert.deepEqual(words, [...(shown[name] ?? []), 'step_finish', 'done']);
      const { messages } = (await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`)).body;
      assert.deepEqual(messages.at(-1), { role: 'assistant', text: said.at(-1) });
      const { events } = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body;
      assert.equal(events.length, 4, 'what broke off is not in the log');
    }),
  );
});

test('a summary is asked for in words, again where that may help, and stored without what cannot be', async (context) => {
  const asked: { role: string; content: string; tool_calls?: unknown }[][] = [];
  const provider = await serveLocally(async (incoming, outgoing) => {
    const { messages } = JSON.parse(Buffer.concat(await incoming.toArray()).toString('utf8'));
    const isSummary: boolean = messages.at(-1).content.startsWith('Summarise');
    if (isSummary && asked.push(messages) === 1) return outgoing.writeHead(503).end();
    const calls = { tool_calls: [{ id: 'x', function: { name: 'files', arguments: '{"operation":"list"}' } }] };
    const message = messages.length === 1 ? calls : { content: isSummary ? 'In\0 short.' : 'fine' };
    outgoing.setHeader('content-type', 'application/json');
    outgoing.end(JSON.stringify({ choices: [{ message, finish_reason: 'stop' }] }));
  });
  context.after(() => provider.close());
  const model = { provider: 'openai-compatible', name: 'm', base_url: provider.origin };
  const tenant = await createTenant(url, { model, context: { limit_tokens: 500, overflow: 'summarize' } });
  const id = await tenant.session();
  for (let turn = 0; turn < 2; turn += 1) assert.equal((await tenant.say(id, 'word '.repeat(160))).text, 'fine');
  const { events } = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body;
  const [condensed] = events.filter(({ type }: { type: string }) => type === 'session.context_condensed');
  assert.deepEqual([condensed?.summary, asked.length], ['In\uFFFD short.', 2]);
  assert.deepEqual(
    asked[1]?.slice(1, -1).map(({ role, content, tool_calls }) => [role, content, tool_calls]),
    [['assistant', '[called files with {"operation":"list"}]\n[files answered: The workspace is empty.]\nfine', undefined]],
    'no tools are given, and some providers then refuse calls',
  );
});
