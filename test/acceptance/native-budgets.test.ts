import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { reserved } from '../support/turns.ts';

const app = await startApp({ after });
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
    const id = await tenant.session();
    await tenant.operate(change);
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
  assert.deepEqual(await reserved(app, tenant.orgId), { tokens: 0, micros: 0 });
});

test('the cap of an instance is its own: another end user goes on', async () => {
  const tenant = await createTenant(url, { instance: { scope: 'end_user' } });
  const changed = await tenant.put('/api/budget', { instance_spend_cap_micros: 20 });
  assert.equal(changed.status, 200, changed.text);
  const ann = await tenant.session({ metadata: { end_user_id: 'ann' } });
  const bob = await tenant.session({ metadata: { end_user_id: 'bob' } });
  await tenant.say(ann, '/words 40');
  const { message: _, ...rest } = await refusal(tenant, ann);
  assert.deepEqual(rest, { error: 'instance_spend_cap_exceeded' });
  const again = await tenant.session({ metadata: { end_user_id: 'ann' } });
  assert.equal((await refusal(tenant, again)).error, 'instance_spend_cap_exceeded', 'her next session is the same instance');
  assert.equal((await tenant.say(bob, '/say hi')).text, 'hi');
});

test('a hundred turns at once overspend a cap by no more than one reservation each, and leave nothing reserved', async () => {
  const tenant = await createTenant(url);
  const ids = await Promise.all(Array.from({ length: 100 }, () => tenant.session()));
  // Each turn reserves 1024 tokens and its text: three fit below the cap, a fourth may cross it.
  await tenant.operate({ total_tokens_cap: 3_500 });
  const answers = await Promise.all(ids.map((id) => tenant.post(`/v1/sessions/${id}/messages`, { text: '/delay 100\n/words 5' })));
  const ran = answers.filter((answer) => answer.status === 200).length;
  assert.ok(ran >= 1 && ran <= 4, `${ran} ran`);
  for (const answer of answers) assert.ok([200, 402].includes(answer.status), answer.text);
  assert.deepEqual(await reserved(app, tenant.orgId), { tokens: 0, micros: 0 });
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
  assert.deepEqual(await reserved(app, tenant.orgId), { tokens: 0, micros: 0 }, 'a pause holds nothing');
  await stop(paused);

  const queued = await tenant.session();
  const stream = await tenant.stream(`/v1/sessions/${queued}/messages`, { text: '/delay 60000\n/say a b', stream: true });
  await stream.until('text');
  const waiting = await tenant.stream(`/v1/sessions/${queued}/messages`, { text: 'next', stream: true });
  assert.ok((await reserved(app, tenant.orgId)).tokens >= 2_048, 'who runs and who waits holds a reservation');
  await stop(queued);
  await Promise.all([stream.rest(), waiting.rest()]);
  assert.deepEqual(await reserved(app, tenant.orgId), { tokens: 0, micros: 0 });
});
