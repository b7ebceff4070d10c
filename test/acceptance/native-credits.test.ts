// Who pays for a turn, and at whose prices: those of each sub-agent's model, from credits or by the customer's own key.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ServiceError } from '../../src/errors.ts';
import { startApp } from '../support/app.ts';
import { serveLocally } from '../support/local-server.ts';
import { createTenant } from '../support/tenants.ts';

const prices = { 'offline/dear': { input: 100, output: 100 }, 'offline/free': { input: 0, output: 0 } };
const settings = { PARLEY_PRICES: JSON.stringify(prices), PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' };
const app = await startApp({ after }, { settings });
const url = await app.listen();

test('what each sub-agent of a turn used is paid for and reported as usage of its own model', async () => {
  const agents = [
    { name: 'main', model: { provider: 'offline', name: 'dear' } },
    { name: 'cheap', model: { provider: 'offline', name: 'demo' } },
  ];
  for (const [limits, text] of [
    [{}, '/handoff cheap'],
    [{ credits_micros: 1_000_000 }, '/handoff cheap'],
    [{}, '/handoff cheap\n/tool bash {"command":"date"}'],
  ] as const) {
    const tenant = await createTenant(url, { agents, permissions: { mode: 'autonomous' } });
    await tenant.operate(limits);
    const id = await tenant.session();
    const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text, stream: true });
    const steps = (await stream.rest()).filter(({ event }) => event === 'step_finish').map(({ data }) => data.data.usage.total_tokens);
    const [dear = 0, ...others] = steps;
    const cheap = others.reduce((sum, tokens) => sum + tokens, 0);
    assert.ok(dear > 0 && cheap > 0, JSON.stringify(steps));
    const { budget } = (await tenant.get('/api/budget')).body;
    assert.deepEqual([budget.spent_micros, budget.tokens_used], [100 * dear + cheap, dear + cheap], text);
    const { data } = (await tenant.get('/api/usage?group_by=model')).body;
    assert.deepEqual(
      Object.fromEntries(
        data.map((row: Record<string, unknown>) => [
          row.model,
          [row.turns, Number(row.input_tokens) + Number(row.output_tokens), row.cost_micros],
        ]),
      ),
      { 'offline/dear': [0, dear, 100 * dear], 'offline/demo': [1, cheap, cheap] },
    );
  }
});

test('a turn that may be handed to a sub-agent on credits needs some, whoever it begins with', async (t) => {
  const tenant = await createTenant(url);
  await tenant.put('/api/model_credentials/openai', { api_key: 'sk-of-the-customer' });
  const own = { provider: 'openai', name: 'gpt-5' };
  const agents = [{ name: 'main' }, { name: 'other', model: { provider: 'offline', name: 'demo' } }];
  await tenant.release({ model: own, agents });
  const id = await tenant.session();
  await tenant.operate({ credits_micros: 0 });
  for (const agent of ['main', 'other']) {
    const answer = await tenant.post(`/v1/sessions/${id}/messages`, { text: '/say free', agent });
    assert.equal(answer.status, 402, answer.text);
    assert.equal(answer.body.detail.reason, 'credits_exhausted');
  }
  assert.equal((await tenant.post('/api/agents/helper/session_tokens', {})).status, 402);
  await tenant.release({ model: own, agents: [{ name: 'main' }, { name: 'other', model: { provider: 'offline', name: 'free' } }] });
  const beside = await tenant.session();
  const free = await tenant.post(`/v1/sessions/${beside}/messages`, { text: '/say free', agent: 'other' });
  assert.deepEqual([free.status, free.body.text], [200, 'free'], 'one that costs nothing needs none beside the own key');
  await tenant.release({ model: own });
  assert.equal((await tenant.post('/api/agents/helper/session_tokens', {})).status, 200, 'on the own key alone none is needed');
  const apply = t.mock.method(app.context.log, 'apply', () => Promise.reject(new ServiceError('unavailable', 'Not now.')));
  await tenant.post(`/v1/sessions/${await tenant.session()}/messages`, { text: 'hi' });
  const { reserveCreditMicros, reserveMicros } = Object(apply.mock.calls[0]?.arguments[0]);
  assert.deepEqual([reserveCreditMicros, reserveMicros > 0], [0, true]);
});

test('a turn is paid for by whose key its calls were made with, also if the key is stored or deleted while it runs', async (t) => {
  const frame = (delta: object, more = {}) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, ...more }] })}\n\n`;
  const usage = { usage: { prompt_tokens: 1_000, completion_tokens: 1_000 } };
  const call = { tool_calls: [{ index: 0, id: 'call', function: { name: 'files', arguments: '{"operation":"list"}' } }] };
  let finish = () => {};
  let isHeld = true;
  const answers: object[] = [];
  const provider = await serveLocally(async (_request, response) => {
    const answer = answers.shift() ?? {};
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(frame({ content: 'One moment.' }));
    await new Promise<void>((resolve) => {
      finish = resolve;
      if (!isHeld) resolve();
    });
    response.end(`${frame(answer, { finish_reason: 'stop' })}data: ${JSON.stringify(usage)}\n\ndata: [DONE]\n\n`);
  });
  t.after(() => provider.close());
  const own = '/api/model_credentials/openai-compatible';
  // By the price of the provider: 1 micro-dollar for a token of input, 3 for one of output.
  const cost = 4_000;
  const besideFree = [{ name: 'main' }, { name: 'other', model: { provider: 'offline', name: 'free' } }];
  for (const { stored, steps, credits, ran = steps, agents } of [
    { stored: false, steps: 1, credits: cost },
    { stored: true, steps: 1, credits: 0 },
    { stored: true, steps: 2, credits: 0, ran: 1 },
    { stored: true, steps: 2, credits: 0, ran: 1, agents: besideFree },
    { stored: false, steps: 2, credits: 2 * cost },
  ]) {
    const model = { provider: 'openai-compatible', name: 'own', base_url: provider.origin };
    const tenant = await createTenant(url, { model, ...(agents === undefined ? {} : { agents }) });
    await tenant.operate({ credits_micros: 1_000_000 });
    if (stored) await tenant.put(own, { api_key: 'sk-of-the-customer' });
    const id = await tenant.session();
    answers.push(...Array.from({ length: steps - 1 }, () => call));
    isHeld = true;
    const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text: 'hi', stream: true });
    await stream.until('text');
    const change = await (stored ? tenant.delete(own) : tenant.put(own, { api_key: 'sk-of-the-customer' }));
    assert.ok(change.status < 300, change.text);
    for (let step = 1; step <= ran; step += 1) {
      isHeld = step < ran;
      finish();
      if (step < ran) await stream.until('text');
    }
    const failure = (await stream.rest()).find(({ event }) => event === 'error')?.data.data.code;
    assert.equal(failure, ran < steps ? 'byok_key_rejected' : undefined, 'a turn that holds no credits does not go on at their expense');
    const { budget } = (await tenant.get('/api/budget')).body;
    const spent = [1_000_000 - budget.credits_remaining_micros, budget.spent_micros];
    assert.deepEqual(spent, [credits, ran * cost], JSON.stringify({ stored, steps }));
  }
});
