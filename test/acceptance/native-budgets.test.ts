import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ServiceError } from '../../src/errors.ts';
import { startApp } from '../support/app.ts';
import { serveLocally } from '../support/local-server.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { nothingReserved, reserved } from '../support/turns.ts';

const prices = {
  'offline/dear': { input: 100, output: 100 },
  'offline/output': { input: 0, output: 1 },
  'offline/free': { input: 0, output: 0 },
};
const settings = { PARLEY_PRICES: JSON.stringify(prices), PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' };
const app = await startApp({ after }, { settings });
const url = await app.listen();

const refusal = async (tenant: Tenant, id: string, stream = false) => {
  const answer = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi', stream });
  assert.equal(answer.status, 402, answer.text);
  assert.deepEqual(Object.keys(answer.body), ['detail']);
  assert.equal(typeof answer.body.detail.message, 'string');
  return answer.body.detail;
};

test('an empty prepaid balance, a reached cap and an unpaid subscription are 402 with their reason, before the turn runs', async () => {
  const cases: [Record<string, unknown>, string, Record<string, unknown>][] = [
    [{ credits_micros: 0 }, 'credits_exhausted', { credits_micros: null }],
    [{ total_tokens_cap: 0 }, 'total_tokens_cap_reached', { total_tokens_cap: null }],
    [{ subscription: { plan: 'pro', status: 'past_due' } }, 'subscription_past_due', { subscription: { plan: 'pro', status: 'active' } }],
  ];
  for (const [change, reason, undo] of cases) {
    const tenant = await createTenant(url);
    const [id, stopped, asking] = [await tenant.session(), await tenant.session(), await tenant.session()];
    await tenant.delete(`${tenant.agentPath}/v1/sessions/${stopped}`);
    await tenant.say(asking, '/tool bash {"command":"true"}');
    await tenant.operate(change);
    for (const other of [stopped, asking])
      assert.equal((await refusal(tenant, other)).reason, reason, 'also where the session would refuse it');
    for (const stream of [false, true]) {
      const { message: _, ...rest } = await refusal(tenant, id, stream);
      assert.deepEqual(rest, { error: 'budget_exhausted', reason });
    }
    assert.equal((await tenant.get(`/v1/sessions/${id}`)).status, 200, 'reads stay 200');
    assert.equal((await tenant.post('/v1/sessions', {})).status, 200, 'a session costs nothing');
    const transcript = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
    assert.deepEqual(transcript.body.messages, []);
    await tenant.operate(undo);
    assert.equal((await tenant.say(id, '/say paid')).text, 'paid');
  }
});

test('credits are spent by turns and then they are gone', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.operate({ credits_micros: 10 });
  const { usage } = await tenant.say(id, '/words 30');
  assert.ok(usage.total_tokens > 10);
  assert.equal((await refusal(tenant, id)).reason, 'credits_exhausted');
  const { body } = await tenant.get('/api/budget');
  assert.equal(body.budget.spent_micros, usage.total_tokens, 'a micro-dollar a token');
  assert.deepEqual(await reserved(app, tenant.orgId), nothingReserved);
});

test('a model whose input costs nothing needs credits for its output', async () => {
  const tenant = await createTenant(url, { model: { provider: 'offline', name: 'output' } });
  const id = await tenant.session();
  await tenant.operate({ credits_micros: 10 });
  const { usage } = await tenant.say(id, '/words 30');
  assert.ok(usage.output_tokens > 10);
  assert.equal((await refusal(tenant, id)).reason, 'credits_exhausted');
  assert.equal((await tenant.get('/api/budget')).body.budget.spent_micros, usage.output_tokens);
  assert.deepEqual(await reserved(app, tenant.orgId), nothingReserved);
});

test('a model that costs nothing needs no credits, in a new session neither', async () => {
  const tenant = await createTenant(url, { model: { provider: 'offline', name: 'free' } });
  const id = await tenant.session();
  await tenant.operate({ credits_micros: 0 });
  assert.equal((await tenant.say(id, '/say free')).text, 'free');
  const chat = await tenant.post(`${tenant.agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content: '/say free' }] });
  assert.equal(chat.status, 200, chat.text);
  assert.equal((await tenant.post('/api/agents/helper/session_tokens', {})).status, 200);
});

test('a model call that is stopped, times out or breaks off is paid for as far as it came, each attempt of it', async () => {
  const cases = [
    { text: '/delay 60000\n/say one two', end: 'done', attempts: 1, words: 'one ' },
    { text: '/delay 60000\n/think deeply now\n/say one two', end: 'done', attempts: 1, words: 'deeply ' },
    { text: '/delay 60000\n/say one two', end: 'error', attempts: 1, words: 'one ', config: { limits: { turn_timeout_s: 1 } } },
    { text: '/fail broken_stream', end: 'error', attempts: 3, words: 'This answer breaks off in the' },
    { text: '/fail unauthorized', end: 'error', attempts: 0, words: '' },
  ];
  await Promise.all(
    cases.map(async ({ text, end, attempts, words, config }) => {
      const tenant = await createTenant(url, { instructions: 'x'.repeat(400), ...config });
      const id = await tenant.session();
      const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text, thinking: true, stream: true });
      if (end === 'done') {
        await stream.until(text.includes('/think') ? 'reasoning' : 'text');
        await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
      }
      assert.equal((await stream.rest()).at(-1)?.event, end);
      const { events } = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body;
      const { usage } = events.at(-1);
      const output = attempts * Math.ceil(words.length / 4);
      const input = attempts * Math.ceil((400 + text.length) / 4);
      assert.deepEqual(usage, { input_tokens: input, output_tokens: output, total_tokens: input + output }, text);
      const { budget } = (await tenant.get('/api/budget')).body;
      assert.equal(budget.spent_micros, input + output, 'and the budget is settled with it');
      assert.deepEqual(await reserved(app, tenant.orgId), nothingReserved);
    }),
  );
});

test('the summary of a long conversation is paid for, beside the answer', async () => {
  const tenant = await createTenant(url, { context: { limit_tokens: 300, overflow: 'summarize' } });
  const id = await tenant.session();
  let total = 0;
  let summaries = 0;
  for (let turn = 0; turn < 5; turn += 1) {
    const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/words 60', stream: true })).rest();
    const tokensOf = (event: string) => frames.find((frame) => frame.event === event)?.data.data.usage.total_tokens;
    summaries += tokensOf('done') - tokensOf('step_finish');
    total += tokensOf('done');
  }
  assert.ok(summaries > 0);
  assert.equal((await tenant.get('/api/budget')).body.budget.spent_micros, total);
});

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
  await tenant.release({ model: own });
  assert.equal((await tenant.post('/api/agents/helper/session_tokens', {})).status, 200, 'on the own key alone none is needed');
  const apply = t.mock.method(app.context.log, 'apply', () => Promise.reject(new ServiceError('unavailable', 'Not now.')));
  const free = await tenant.session();
  await tenant.post(`/v1/sessions/${free}/messages`, { text: 'hi' });
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
  for (const { stored, steps, credits, ran = steps } of [
    { stored: false, steps: 1, credits: cost },
    { stored: true, steps: 1, credits: 0 },
    { stored: true, steps: 2, credits: 0, ran: 1 },
    { stored: false, steps: 2, credits: 2 * cost },
  ]) {
    const tenant = await createTenant(url, { model: { provider: 'openai-compatible', name: 'own', base_url: provider.origin } });
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

test('the cap of an instance is its own: another end user goes on', async () => {
  const tenant = await createTenant(url, { instance: { scope: 'end_user' } });
  const ann = await tenant.session({ metadata: { end_user_id: 'ann' } });
  const bob = await tenant.session({ metadata: { end_user_id: 'bob' } });
  await tenant.say(ann, '/words 40');
  const { usage } = await tenant.say(ann, '/words 40');
  // More than either turn took, and less than both.
  const changed = await tenant.put('/api/budget', { instance_spend_cap_micros: usage.total_tokens + 1 });
  assert.equal(changed.status, 200, changed.text);
  const { message: _, ...rest } = await refusal(tenant, ann);
  assert.deepEqual(rest, { error: 'instance_spend_cap_exceeded' });
  const again = await tenant.session({ metadata: { end_user_id: 'ann' } });
  assert.equal((await refusal(tenant, again)).error, 'instance_spend_cap_exceeded', 'her next session is the same instance');
  assert.equal((await tenant.say(bob, '/say hi')).text, 'hi');
  const complete = (user: string) =>
    tenant.post(`${tenant.agentPath}/v1/chat/completions`, {
      messages: [{ role: 'user', content: '/say hi' }],
      metadata: { end_user_id: user },
    });
  const together = await Promise.all(['ann', 'bob'].map(complete));
  assert.deepEqual(
    together.map((answer) => answer.status),
    [402, 200],
    'also where both ask at the same moment',
  );
});

test('what a running turn holds counts as used, of each kind of cap', async () => {
  for (const [cap, expected] of [
    [{ total_tokens_cap: 1 }, 'total_tokens_cap_reached'],
    [{ credits_micros: 1 }, 'credits_exhausted'],
    [{ instance_spend_cap_micros: 1 }, 'instance_spend_cap_exceeded'],
  ] as const) {
    const tenant = await createTenant(url, { instance: { scope: 'end_user' } });
    const [running, next] = await Promise.all([1, 2].map(() => tenant.session({ metadata: { end_user_id: 'ann' } })));
    if ('instance_spend_cap_micros' in cap) await tenant.put('/api/budget', cap);
    else await tenant.operate(cap);
    const stream = await tenant.stream(`/v1/sessions/${running}/messages`, { text: '/delay 60000\n/say a b', stream: true });
    await stream.until('text');
    const { error, reason } = await refusal(tenant, next ?? '');
    assert.equal(reason ?? error, expected);
    await tenant.delete(`${tenant.agentPath}/v1/sessions/${running}`);
    await stream.rest();
  }
});

test('a hundred turns at once overspend a cap by no more than one reservation each, and leave nothing reserved', async () => {
  const tenant = await createTenant(url);
  const ids = await Promise.all(Array.from({ length: 100 }, () => tenant.session()));
  // Each turn reserves 1024 tokens and its text: three fit below the cap, a fourth may cross it.
  await tenant.operate({ total_tokens_cap: 3_500 });
  const answers = await Promise.all(ids.map((id) => tenant.post(`/v1/sessions/${id}/messages`, { text: '/delay 500\n/words 5' })));
  const ran = answers.filter((answer) => answer.status === 200).length;
  assert.ok(ran >= 1 && ran <= 4, `${ran} ran`);
  for (const answer of answers) assert.ok([200, 402].includes(answer.status), answer.text);
  assert.deepEqual(await reserved(app, tenant.orgId), nothingReserved);
  const id = await tenant.session();
  assert.equal((await tenant.say(id, '/say room is left')).text, 'room is left');
});

test('every way a turn ends gives its reservation back', async () => {
  const tenant = await createTenant(url);
  await tenant.operate({ total_tokens_cap: 1_000_000, credits_micros: 1_000_000 });
  const stop = (id: string) => tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  const failed = await tenant.session();
  await tenant.post(`/v1/sessions/${failed}/messages`, { text: '/fail unauthorized' });

  const paused = await tenant.session();
  await tenant.say(paused, '/tool bash {"command":"true"}');
  assert.deepEqual(await reserved(app, tenant.orgId), nothingReserved, 'a pause holds nothing');
  await stop(paused);
  const approved = await tenant.session();
  const { pending_input: pending } = await tenant.say(approved, '/tool bash {"command":"true"}');
  await tenant.put(`/v1/sessions/${approved}/inputs/${pending?.request_id}`, { decision: 'approve_once' });
  assert.deepEqual(await reserved(app, tenant.orgId), nothingReserved, 'what is given back after it was held');

  const queued = await tenant.session();
  const stream = await tenant.stream(`/v1/sessions/${queued}/messages`, { text: '/delay 60000\n/say a b', stream: true });
  await stream.until('text');
  const waiting = await tenant.stream(`/v1/sessions/${queued}/messages`, { text: 'next', stream: true });
  // 1024 tokens each, and one for every four characters.
  const both = 2 * 1_024 + 6 + 1;
  assert.deepEqual(
    await reserved(app, tenant.orgId),
    { tokens: both, micros: both, ofInstances: both },
    'who runs and who waits holds a reservation',
  );
  await stop(queued);
  await Promise.all([stream.rest(), waiting.rest()]);
  assert.deepEqual(await reserved(app, tenant.orgId), nothingReserved);
});
