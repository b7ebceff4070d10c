import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { nothingReserved, reserved } from '../support/turns.ts';

const prices = {
  'offline/output': { input: 0, output: 1 },
  'offline/free': { input: 0, output: 0 },
};
const app = await startApp({ after }, { settings: { PARLEY_PRICES: JSON.stringify(prices) } });
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
