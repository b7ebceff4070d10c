import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createAgent,
  createDeadEndpoint,
  createOrganization,
  operate,
  type TestOrganization,
  webhookEvents,
} from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { until } from '../../support/until.ts';

const parley = await startApp({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });

async function organizationWithAgent(slug: string, config: Record<string, unknown> = {}): Promise<TestOrganization> {
  const organization = await createOrganization(parley, slug);
  await createAgent(parley, organization.key, 'desk', config);
  return organization;
}

async function say({ slug, key }: TestOrganization, text: string, metadata: Record<string, unknown> = {}, agent = 'desk') {
  const session = await parley.call('POST', `/${slug}/${agent}/v1/sessions`, { key, body: { metadata } });
  if (session.status === 503) return session;
  assert.equal(session.status, 200, session.text);
  return parley.call('POST', `/${slug}/${agent}/v1/sessions/${session.body.id}/messages`, { key, body: { text } });
}

const budgetOf = async ({ key }: TestOrganization) => (await parley.call('GET', '/api/budget', { key })).body.budget;

test('an exhausted budget blocks turns and minting with its reason, and leaves reads alone', async () => {
  const acme = await organizationWithAgent('caps');
  const cases: [changes: Record<string, unknown>, reason: string][] = [
    [{ credits_micros: 0 }, 'credits_exhausted'],
    [{ credits_micros: null, total_tokens_cap: 0 }, 'total_tokens_cap_reached'],
    [{ total_tokens_cap: null, subscription: { plan: 'pro', status: 'past_due' } }, 'subscription_past_due'],
  ];
  for (const [changes, reason] of cases) {
    await operate(parley, acme.slug, changes);
    const turn = await say(acme, 'hello');
    assert.equal(turn.status, 402, turn.text);
    assert.deepEqual(Object.keys(turn.body.detail).sort(), ['error', 'message', 'reason']);
    assert.deepEqual([turn.body.detail.error, turn.body.detail.reason], ['budget_exhausted', reason]);
    const mint = await parley.call('POST', '/api/agents/desk/session_tokens', { key: acme.key, body: {} });
    assert.deepEqual([mint.status, mint.body.error, mint.body.reason], [402, 'budget_exhausted', reason]);
    const { state, reason: why, percent_used } = await budgetOf(acme);
    assert.deepEqual([state, why, percent_used], ['exhausted', reason, reason === 'subscription_past_due' ? 0 : 100]);
    assert.equal((await parley.call('GET', '/caps/desk/v1/sessions', { key: acme.key })).status, 200);
  }
  await operate(parley, acme.slug, { subscription: { plan: 'pro', status: 'active' }, credits_micros: 1 });
  assert.equal((await say(acme, 'hello')).status, 200);
  assert.equal((await budgetOf(acme)).credits_remaining_micros, 0);
  await operate(parley, acme.slug, { total_tokens_cap: 1_000_000 });
  assert.equal((await budgetOf(acme)).credits_remaining_micros, 0, 'another cap leaves the credits as they are');
  await operate(parley, acme.slug, { credits_micros: 500 });
  assert.equal((await budgetOf(acme)).credits_remaining_micros, 500, 'what was spent before does not count');
});

test('an instance over its spend cap is refused; another instance is not', async () => {
  const acme = await organizationWithAgent('instances');
  const set = await parley.call('PUT', '/api/budget', { key: acme.key, body: { instance_spend_cap_micros: 1 } });
  assert.deepEqual([set.status, set.body.budget.instance_spend_cap_micros], [200, 1]);
  assert.equal((await say(acme, 'hello', { end_user_id: 'ada' })).status, 200);
  const refused = await say(acme, 'hello again', { end_user_id: 'ada' });
  assert.deepEqual([refused.status, refused.body.detail.error], [402, 'instance_spend_cap_exceeded']);
  assert.equal((await say(acme, 'hello', { end_user_id: 'bob' })).status, 200);
  await createAgent(parley, acme.key, 'shop');
  assert.equal((await say(acme, 'hello', { end_user_id: 'ada' }, 'shop')).status, 200, 'nor is hers at another agent');
});

test('no token is minted for an instance over its spend cap, whose turns would be refused; for others it is', async () => {
  const org = await organizationWithAgent('capped-tokens', { instance: { scope: 'end_user' } });
  const { key } = org;
  await createAgent(parley, key, 'shared', { instance: { scope: 'shared' } });
  await createAgent(parley, key, 'apart', { instance: { scope: 'session' } });
  await parley.call('POST', '/api/agents', { key, body: { slug: 'bare' } });
  const spent = [{ end_user_id: 'ann' }, { agent_instance_id: 'payroll' }];
  for (const metadata of spent) for (const agent of ['desk', 'shared', 'apart']) await say(org, 'hello', metadata, agent);
  await parley.call('PUT', '/api/budget', { key, body: { instance_spend_cap_micros: 1 } });
  const cases: [agent: string, body: Record<string, unknown>, status: number][] = [
    ['desk', { end_user_id: 'ann' }, 402],
    ['desk', { end_user_id: 'bob' }, 200],
    ['desk', {}, 200],
    ['desk', { metadata: { end_user_id: 'ann' } }, 200],
    ['desk', { agent_instance_id: 'payroll' }, 402],
    ['desk', { end_user_id: 'bob', metadata: { agent_instance_id: 'payroll' } }, 402],
    ['desk', { end_user_id: 'ann', agent_instance_id: 'other' }, 200],
    ['shared', {}, 402],
    ['apart', { end_user_id: 'ann' }, 200],
    ['bare', { end_user_id: 'ann' }, 200],
  ];
  for (const [agent, body, status] of cases) {
    for (const headers of [{}, { 'idempotency-key': JSON.stringify([agent, body]) }]) {
      const mint = await parley.call('POST', `/api/agents/${agent}/session_tokens`, { key, body, headers });
      assert.equal(mint.status, status, `${agent} ${JSON.stringify(body)}: ${mint.text}`);
      if (status === 200) continue;
      const message = 'The spending cap of this instance has been reached.';
      assert.deepEqual(mint.body, { error: 'instance_spend_cap_exceeded', message });
    }
  }
});

test('a turn is counted by day, agent, model and end user, and nothing stays reserved', async () => {
  const acme = await organizationWithAgent('counted');
  await operate(parley, acme.slug, { credits_micros: 1_000_000 });
  const turn = await say(acme, '/words 20', { end_user_id: 'ada' });
  const { input_tokens, output_tokens, total_tokens } = turn.body.usage;
  await say(acme, '/words 3', { end_user_id: 'bob' });
  const slow = say(acme, '/delay 100\n/words 5');
  await until(async () => (await budgetOf(acme)).reserved_tokens > 1_024, 10_000, 'the reservation of a running turn');
  await slow;
  assert.equal((await budgetOf(acme)).reserved_tokens, 0);
  const usage = await parley.call('GET', '/api/usage', { key: acme.key });
  const row = usage.body.data.find((entry: { end_user_id: string }) => entry.end_user_id === 'ada');
  assert.deepEqual(row, {
    day: new Date().toISOString().slice(0, 10),
    agent: 'desk',
    agent_id: row.agent_id,
    model: row.model,
    end_user_id: 'ada',
    turns: 1,
    input_tokens,
    output_tokens,
    total_tokens,
    cached_tokens: 0,
    cost_micros: total_tokens,
  });
  const byAgent = await parley.call('GET', '/api/usage?group_by=agent', { key: acme.key });
  assert.deepEqual([byAgent.body.data.length, byAgent.body.data[0].agent, byAgent.body.data[0].turns], [1, 'desk', 3]);
  assert.ok(
    usage.body.data.some((entry: { end_user_id: string | null }) => entry.end_user_id === null),
    'a turn of nobody',
  );
  const onlyBob = await parley.call('GET', '/api/usage?end_user_id=bob&group_by=end_user', { key: acme.key });
  assert.deepEqual(
    onlyBob.body.data.map((entry: { turns: number }) => entry.turns),
    [1],
  );
  const ofDesk = '/api/usage?agent=desk&group_by=agent';
  await parley.call('DELETE', '/api/agents/desk', { key: acme.key });
  assert.deepEqual((await parley.call('GET', ofDesk, { key: acme.key })).body, byAgent.body, 'also once the agent is deleted');
  assert.deepEqual((await parley.call('GET', '/api/usage?agent=nobody', { key: acme.key })).body, { data: [], next_cursor: null });
  const past = await parley.call('GET', '/api/usage?to=2020-01-01', { key: acme.key });
  assert.deepEqual(past.body.data, []);
  const first = await parley.call('GET', '/api/usage?limit=1', { key: acme.key });
  const second = await parley.call('GET', `/api/usage?limit=2&cursor=${first.body.next_cursor}`, { key: acme.key });
  assert.deepEqual([...first.body.data, ...second.body.data], usage.body.data);
  assert.equal(second.body.next_cursor, null);
  const unfiltered = await parley.call('GET', '/api/usage?limit=1&from=&to=&agent=&model=&end_user_id=', { key: acme.key });
  assert.deepEqual(unfiltered.body, first.body, 'empty fields of a form filter nothing');
  const byEndUser = (await parley.call('GET', '/api/usage?limit=1&group_by=end_user', { key: acme.key })).body;
  const otherwise = `group_by=model&cursor=${byEndUser.next_cursor}`;
  for (const bad of ['from=yesterday', 'group_by=week', 'cursor=x', otherwise]) {
    assert.equal((await parley.call('GET', `/api/usage?${bad}`, { key: acme.key })).status, 422, bad);
  }
  const budget = await budgetOf(acme);
  assert.deepEqual([budget.reserved_tokens, budget.reserved_micros], [0, 0]);
  assert.equal(budget.credits_remaining_micros, 1_000_000 - budget.spent_micros);
  const { organizations } = (await parley.call('GET', '/operator/organizations', { key: parley.operatorKey })).body;
  const { tokens_used, spent_micros } = organizations.find((organization: { id: number }) => organization.id === acme.id);
  assert.deepEqual([tokens_used, spent_micros], [budget.tokens_used, budget.spent_micros]);
  await createAgent(parley, acme.key, 'desk');
  await say(acme, '/words 3');
  const { agent: desk } = (await parley.call('GET', '/api/agents/desk', { key: acme.key })).body;
  const ofBoth = (await parley.call('GET', ofDesk, { key: acme.key })).body.data;
  const turns = ofBoth.map((entry: { agent_id: number; turns: number }) => [entry.agent_id, entry.turns]);
  assert.deepEqual(
    turns,
    [
      [row.agent_id, 3],
      [desk.id, 1],
    ],
    'of two agents with one slug each is known by its id',
  );
});

test('a hundred turns at the edge of a cap overspend it by no more than their reservations', async () => {
  const acme = await organizationWithAgent('edge', { instance: { scope: 'session' } });
  // Fewer than a hundred turns use one after another, so that it is reached however many of them run at once.
  await operate(parley, acme.slug, { total_tokens_cap: 300 });
  // A machine that is busy with other things may turn some away for a while; at once again, they would meet the rate limit.
  const sayAgain = async (): ReturnType<typeof say> => {
    const turn = await say(acme, '/words 5');
    if (turn.status !== 503) return turn;
    await sleep(Number(turn.headers['retry-after']) * 1000);
    return sayAgain();
  };
  const turns = await Promise.all(Array.from({ length: 100 }, sayAgain));
  const statuses = turns.map((turn) => turn.status);
  assert.ok(
    statuses.every((status) => status === 200 || status === 402),
    String(new Set(statuses)),
  );
  assert.ok(statuses.includes(402), 'the cap was reached');
  const budget = await budgetOf(acme);
  assert.deepEqual([budget.reserved_tokens, budget.reserved_micros], [0, 0]);
  assert.ok(budget.tokens_used <= 300 + 1_100, `${budget.tokens_used} used`);
});

test('thresholds are reported once, and again after a cap is changed', async () => {
  const acme = await organizationWithAgent('alerts');
  await createDeadEndpoint(parley, acme.key);
  const reported = async () => {
    const events = (await webhookEvents(parley, acme.id)).filter(({ type }) => type.startsWith('usage.'));
    return events.map(({ type, data }) => `${type} ${JSON.parse(JSON.stringify(data)).threshold}`).sort();
  };
  await operate(parley, acme.slug, { total_tokens_cap: 40 });
  assert.equal((await say(acme, '/words 60')).status, 200);
  const all = ['usage.budget_exhausted 100', 'usage.budget_threshold_reached 50', 'usage.budget_threshold_reached 80'];
  assert.deepEqual(await reported(), all);
  assert.equal((await say(acme, 'again')).status, 402);
  assert.deepEqual(await reported(), all);
  await operate(parley, acme.slug, { total_tokens_cap: 1_000_000 });
  assert.deepEqual(await reported(), all, 'a larger cap is not near its end');
  await operate(parley, acme.slug, { total_tokens_cap: 3 * (await budgetOf(acme)).tokens_used });
  assert.equal((await say(acme, '/words 60')).status, 200);
  const more = [...all, 'usage.budget_threshold_reached 50'].sort();
  assert.deepEqual(await reported(), more, 'its thresholds are reported on the way there');
  assert.equal((await say(acme, '/words 60')).status, 200);
  const twice = [...all, ...all].sort();
  assert.deepEqual(await reported(), twice, 'each once');
  await operate(parley, acme.slug, { total_tokens_cap: 1 });
  assert.deepEqual(await reported(), [...twice, ...all].sort(), 'a smaller one is passed at once');
  for (const body of [{ total_tokens_cap: 1 }, { instance_spend_cap_micros: 5 }, {}])
    assert.equal((await parley.call('PUT', '/api/budget', { key: acme.key, body })).status, 200);
  assert.deepEqual(await reported(), [...twice, ...all].sort(), 'the same cap again is nothing new');
});

test('the cap is reported also where no threshold names it, and nothing beyond it is called exhausted', async () => {
  const acme = await organizationWithAgent('quiet');
  await createDeadEndpoint(parley, acme.key);
  await parley.call('PATCH', '/api/organization', { key: acme.key, body: { alert_thresholds: [10, 110] } });
  const reported = async () => {
    const events = (await webhookEvents(parley, acme.id)).filter(({ type }) => type.startsWith('usage.'));
    return events.map(({ type, data }) => `${type} ${JSON.parse(JSON.stringify(data)).threshold}`).sort();
  };
  const all = ['usage.budget_exhausted 100', 'usage.budget_threshold_reached 10', 'usage.budget_threshold_reached 110'];
  await operate(parley, acme.slug, { total_tokens_cap: 40 });
  assert.equal((await say(acme, '/words 60')).status, 200);
  assert.deepEqual(await reported(), all, 'by a turn');
  await operate(parley, acme.slug, { total_tokens_cap: 1 });
  assert.deepEqual(await reported(), [...all, ...all].sort(), 'by a change');
  await operate(parley, acme.slug, { total_tokens_cap: null, credits_micros: 40 });
  assert.equal((await say(acme, '/words 60')).status, 200);
  assert.deepEqual(await reported(), [...all, ...all, ...all].sort(), 'and of credits');
  await operate(parley, acme.slug, { credits_micros: 40 });
  assert.equal((await say(acme, '/words 60')).status, 200);
  assert.deepEqual(await reported(), [...all, ...all, ...all, ...all].sort(), 'and again once there are as many as before');
});

test('a changed cap is reported as far as it is used, which the next turn does not repeat; without the credits the other cap counts', async () => {
  const acme = await organizationWithAgent('changed');
  await createDeadEndpoint(parley, acme.key);
  const reported = async () => {
    const events = (await webhookEvents(parley, acme.id)).filter(({ type }) => type.startsWith('usage.'));
    return events.map(({ data }) => JSON.parse(JSON.stringify(data)).threshold).sort((a, b) => a - b);
  };
  assert.equal((await say(acme, '/words 60')).status, 200);
  const { tokens_used } = await budgetOf(acme);
  await operate(parley, acme.slug, { total_tokens_cap: tokens_used });
  assert.deepEqual(await reported(), [50, 80, 100], 'used to its end');
  await operate(parley, acme.slug, { total_tokens_cap: 2 * tokens_used });
  assert.deepEqual(await reported(), [50, 50, 80, 100], 'used by half');
  assert.equal((await say(acme, '/say hi')).status, 200);
  assert.deepEqual(await reported(), [50, 50, 80, 100]);
  await operate(parley, acme.slug, { credits_micros: 0 });
  assert.deepEqual(await reported(), [50, 50, 50, 80, 80, 100, 100], 'no credits are used to their end');
  await operate(parley, acme.slug, { credits_micros: null });
  const all = [50, 50, 50, 50, 80, 80, 100, 100];
  assert.deepEqual(await reported(), all, 'the cap of tokens, used by half');
  await operate(parley, acme.slug, { credits_micros: null });
  assert.deepEqual(await reported(), all, 'there were no credits before');
  assert.equal((await parley.call('PUT', '/api/budget', { key: acme.key, body: { instance_spend_cap_micros: 1_000_000 } })).status, 200);
  assert.equal((await say(acme, '/say hi')).status, 200);
  assert.deepEqual(await reported(), all, 'the cap of an instance has no thresholds');
});

test('a bad budget is refused, naming the field', async () => {
  const { key } = await organizationWithAgent('strict');
  for (const [body, field] of [
    [{ total_tokens_cap: -1 }, 'total_tokens_cap'],
    [{ total_tokens_cap: 1.5 }, 'total_tokens_cap'],
    [{ instance_spend_cap_micros: 'many' }, 'instance_spend_cap_micros'],
    [{ credits_micros: 5 }, 'credits_micros'],
  ] as const) {
    const answer = await parley.call('PUT', '/api/budget', { key, body });
    assert.equal(answer.status, 422);
    assert.ok(answer.body.detail.startsWith(`${field}: `), answer.text);
  }
});
