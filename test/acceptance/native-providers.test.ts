import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
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

test('a model is asked for its answer in one piece where the caller waits for all of it and nobody else watches', async (t) => {
  const asked: boolean[] = [];
  const chunk = (delta: object, finish: string | null) => `data: ${JSON.stringify({ choices: [{ delta, finish_reason: finish }] })}\n\n`;
  const provider = await serveLocally(async (incoming, outgoing) => {
    const { stream, messages } = JSON.parse(Buffer.concat(await incoming.toArray()).toString('utf8'));
    asked.push(stream);
    if (messages.at(-1).content === 'hang') return;
    if (stream) return void outgoing.setHeader('content-type', 'text/event-stream').end(chunk({ content: 'Hi' }, null) + chunk({}, 'stop'));
    const choices = [{ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }];
    outgoing
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify({ choices, usage: { prompt_tokens: 5, completion_tokens: 1 } }));
  });
  t.after(() => provider.close());
  const tenant = await createTenant(url, { model: { provider: 'openai-compatible', name: 'm', base_url: provider.origin } });
  const id = await tenant.session();
  const askedBy = async (ask: () => Promise<unknown>) => {
    asked.length = 0;
    await ask();
    return asked;
  };
  const managed = `${tenant.agentPath}/v1/managed-agents/sessions`;

  const { text, usage } = await tenant.say(id, 'hi');
  assert.deepEqual([text, usage], ['Hi', { input_tokens: 5, output_tokens: 1, total_tokens: 6 }]);
  assert.deepEqual(asked, [false]);
  const messages = [{ role: 'user', content: 'hi' }];
  assert.deepEqual(await askedBy(() => tenant.post(`${tenant.agentPath}/v1/chat/completions`, { messages })), [false]);
  assert.deepEqual(await askedBy(() => tenant.post(`${tenant.agentPath}/v1/responses`, { input: 'hi' })), [false]);
  const streamed = async () => (await tenant.stream(`/v1/sessions/${id}/messages`, { text: 'hi', stream: true })).rest();
  assert.deepEqual(await askedBy(streamed), [true]);

  // Whoever posts and follows may come to the stream a moment later.
  const posted = async () => {
    const answer = await tenant.post(`${managed}/${id}/events`, { type: 'user.message', text: 'hi' });
    assert.equal(answer.status, 202, answer.text);
    while (asked.length === 0) await sleep(5);
  };
  assert.deepEqual(await askedBy(posted), [true]);

  const watcher = new AbortController();
  await fetch(`${url}${managed}/${id}/events/stream?deltas=true`, {
    headers: { authorization: `Bearer ${tenant.key}` },
    signal: watcher.signal,
  });
  assert.deepEqual(await askedBy(() => tenant.say(id, 'hi')), [true]);
  watcher.abort();

  // The question of an answer that was stopped is counted.
  asked.length = 0;
  const stopped = tenant.say(id, 'hang');
  while (asked.length === 0) await sleep(5);
  await tenant.post(`${managed}/${id}/events`, { type: 'user.interrupt' });
  const cut = await stopped;
  assert.equal(cut.text, '');
  assert.ok(cut.usage.input_tokens > 0, JSON.stringify(cut.usage));
});
