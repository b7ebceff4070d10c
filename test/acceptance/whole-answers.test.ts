// Where nobody watches a model's text come, it is asked for in one piece; nothing else may be different.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { serveLocally } from '../support/local-server.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

const app = await startApp({ after }, { settings: { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
const url = await app.listen();

/** A tenant on a chat-completions server, and the `stream` of each request that it got. What `answerWhole` leaves open stays open. */
async function tenantOf(
  owner: { after(work: () => void): void },
  answerWhole: (outgoing: ServerResponse, text: string) => void = answerHi,
  config: Record<string, unknown> = {},
): Promise<{ tenant: Tenant; asked: boolean[]; managed: string }> {
  const asked: boolean[] = [];
  const provider = await serveLocally(async (incoming, outgoing) => {
    const { stream, messages } = JSON.parse(Buffer.concat(await incoming.toArray()).toString('utf8'));
    asked.push(stream);
    if (!stream) return answerWhole(outgoing, messages.at(-1).content);
    const chunk = (delta: object, finish: string | null) => `data: ${JSON.stringify({ choices: [{ delta, finish_reason: finish }] })}\n\n`;
    outgoing.setHeader('content-type', 'text/event-stream').end(chunk({ content: 'streamed' }, null) + chunk({}, 'stop'));
  });
  owner.after(() => provider.close());
  const tenant = await createTenant(url, { ...config, model: { provider: 'openai-compatible', name: 'm', base_url: provider.origin } });
  return { tenant, asked, managed: `${tenant.agentPath}/v1/managed-agents/sessions` };
}

function answerHi(outgoing: ServerResponse): void {
  const choices = [{ message: { role: 'assistant', content: 'whole' }, finish_reason: 'stop' }];
  outgoing.setHeader('content-type', 'application/json');
  outgoing.end(JSON.stringify({ choices, usage: { prompt_tokens: 5, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 3 } } }));
}

test('a model is asked for its answer in one piece by a caller who waits for all of it', async (t) => {
  const { tenant, asked } = await tenantOf(t);
  const { text, usage } = await tenant.say(await tenant.session(), 'hi');
  assert.deepEqual([text, usage], ['whole', { input_tokens: 5, output_tokens: 1, total_tokens: 6 }]);
  const messages = [{ role: 'user', content: 'hi' }];
  const completion = await tenant.post(`${tenant.agentPath}/v1/chat/completions`, { messages });
  assert.equal(completion.body.choices[0].message.content, 'whole');
  assert.deepEqual(completion.body.usage.prompt_tokens_details, { cached_tokens: 3 });
  const response = await tenant.post(`${tenant.agentPath}/v1/responses`, { input: 'hi' });
  assert.equal(response.body.output_text, 'whole');
  assert.deepEqual(response.body.usage.input_tokens_details, { cached_tokens: 3 });
  assert.deepEqual(asked, [false, false, false]);
  const [used] = (await tenant.get('/api/usage')).body.data;
  assert.deepEqual([used.turns, used.input_tokens, used.cached_tokens], [3, 15, 9]);
  assert.equal((await tenant.get('/api/budget')).body.budget.tokens_used, 18, 'counted also where nothing is capped');
});

test('a model is asked for a stream by a caller who shows it as it comes, may follow later or waits in line, or where another watches', async (t) => {
  let finish = () => {};
  const { tenant, asked, managed } = await tenantOf(t, (outgoing) => {
    finish = () => answerHi(outgoing);
  });
  const id = await tenant.session();
  await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: 'hi', stream: true })).rest();

  const posted = await tenant.post(`${managed}/${id}/events`, { type: 'user.message', text: 'hi' });
  assert.equal(posted.status, 202, posted.text);
  await until(async () => (await tenant.get(`${managed}/${id}`)).body.status === 'idle' && asked.length === 2);

  const watcher = new AbortController();
  const headers = { authorization: `Bearer ${tenant.key}` };
  await fetch(`${url}${managed}/${id}/events/stream?deltas=true`, { headers, signal: watcher.signal });
  assert.equal((await tenant.say(id, 'hi')).text, 'streamed');
  watcher.abort();
  assert.deepEqual(asked, [true, true, true]);

  const other = await tenant.session();
  const before = tenant.say(other, 'first');
  await until(async () => asked.length === 4);
  const behind = tenant.say(other, 'second');
  await until(async () => (await tenant.get(`${managed}/${other}`)).body.events.length > 0);
  finish();
  assert.deepEqual([(await before).text, (await behind).text], ['whole', 'streamed']);
});

test('where an answer in one piece breaks off or is refused, it is streamed in the same turn', async (t) => {
  const failures: ((outgoing: ServerResponse) => void)[] = [
    (outgoing) => outgoing.destroy(),
    (outgoing) => outgoing.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"message":"stream must be true"}}'),
  ];
  for (const fail of failures) {
    const { tenant, asked } = await tenantOf(t, fail);
    assert.equal((await tenant.say(await tenant.session(), 'hi')).text, 'streamed');
    assert.deepEqual(asked, [false, true]);
  }
});

test('a model that only streams is not asked again and again for an answer in one piece', async (t) => {
  const { tenant, asked } = await tenantOf(t, (outgoing) => outgoing.writeHead(400).end('{"error":{"message":"stream must be true"}}'));
  const id = await tenant.session();
  for (const text of ['one', 'two']) assert.equal((await tenant.say(id, text)).text, 'streamed');
  assert.deepEqual(asked, [false, true, true]);
});

test('an answer that is stopped on its way counts its question, one that was never given counts nothing', async (t) => {
  const { tenant, asked, managed } = await tenantOf(
    t,
    (outgoing, text) => {
      if (text === 'busy') outgoing.writeHead(429, { 'retry-after': '20' }).end('{}');
    },
    { limits: { turn_timeout_s: 2 } },
  );
  const stopped = async (text: string) => {
    const id = await tenant.session();
    asked.length = 0;
    const answer = tenant.say(id, text);
    await until(async () => asked.length === 1);
    await tenant.post(`${managed}/${id}/events`, { type: 'user.interrupt' });
    const { text: said, usage } = await answer;
    assert.equal(said, '');
    return usage.input_tokens;
  };
  assert.ok((await stopped('hang')) > 0);
  assert.equal(await stopped('busy'), 0);

  const { body: before } = await tenant.get('/api/budget');
  const late = await tenant.post(`/v1/sessions/${await tenant.session()}/messages`, { text: 'hang' });
  assert.equal(late.body.detail.error, 'turn_timeout', late.text);
  const { body: budget } = await tenant.get('/api/budget');
  assert.ok(budget.budget.tokens_used > before.budget.tokens_used);
});

test('a completion and a response whose turn takes longer than 30 s get 200 and spaces before the JSON', async (t) => {
  const tenant = await createTenant(url);
  const text = '/delay 50\n/words 4';
  const { setTimeout } = globalThis;
  // The wait for the 30 s to be over is the only timer of this length here.
  t.mock.method(globalThis, 'setTimeout', (work: () => void, ms?: number) => setTimeout(work, ms === 30_000 ? 1 : ms));
  for (const [path, body] of [
    ['chat/completions', { messages: [{ role: 'user', content: text }] }],
    ['responses', { input: text }],
  ] as const) {
    const answer = await tenant.post(`${tenant.agentPath}/v1/${path}`, body);
    assert.deepEqual([answer.status, answer.text.slice(0, 2), typeof answer.body], [200, ' {', 'object'], path);
  }
});
