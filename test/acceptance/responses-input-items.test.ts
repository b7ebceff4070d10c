// What a response was made from: the conversation before it, and its own input.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { notFoundText, withToken } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/responses`;
const listOf = (tenant: Tenant, id: string, query = '') => tenant.get(`${pathOf(tenant)}/${id}/input_items${query}`);
const shown = (items: { role?: string; type: string; content?: { text: string }[] }[]) =>
  items.map(({ role, type, content }) => `${role ?? type}: ${content?.[0]?.text ?? ''}`);

test('the one message of a first response, to the field', async () => {
  const tenant = await createTenant(url);
  const response = await tenant.post(pathOf(tenant), { input: '/say Grüße 🙂' });
  const list = await listOf(tenant, response.body.id);
  const id = list.body.data[0].id;
  assert.match(id, /^msg_[0-9A-Z]{26}$/);
  assert.deepEqual(list.body, {
    object: 'list',
    data: [{ id, type: 'message', status: 'completed', role: 'user', content: [{ type: 'input_text', text: '/say Grüße 🙂' }] }],
    first_id: id,
    last_id: id,
    has_more: false,
  });
  assert.equal(list.headers.get('x-svc-session'), response.headers.get('x-svc-session'));
});

test('sent back ahead of a new message, without the answer, they are not told the agent again', async () => {
  const tenant = await createTenant(url);
  const input = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'earlier question' },
    { role: 'user', content: '/say one' },
  ];
  const first = await tenant.post(pathOf(tenant), { input });
  const asked = (await listOf(tenant, first.body.id, '?order=asc')).body.data;
  const more = [
    { role: 'user', content: 'by the way' },
    { role: 'user', content: '/say two' },
  ];
  const second = await tenant.post(pathOf(tenant), { input: [...asked, ...more] });
  const told = shown((await listOf(tenant, second.body.id, '?order=asc')).body.data);
  assert.deepEqual(told, [...shown(asked), 'assistant: one', 'user: by the way', 'user: /say two']);
  const again = await tenant.post(pathOf(tenant), { input: asked.slice(-1), conversation: second.headers.get('x-svc-session') });
  assert.equal(again.body.output_text, 'one', 'the last one is run');
});

test('the conversation before it, newest first or from the start, with the ids that the agent answered under', async () => {
  const tenant = await createTenant(url);
  const input = [
    { role: 'developer', content: 'Be brief.' },
    { role: 'user', content: 'earlier question' },
    { role: 'assistant', content: 'earlier answer' },
    { role: 'user', content: '/say one' },
  ];
  const first = await tenant.post(pathOf(tenant), { input });
  const second = await tenant.post(pathOf(tenant), { input: '/say two', previous_response_id: first.body.id });
  const whole = ['system: Be brief.', 'user: earlier question', 'assistant: earlier answer', 'user: /say one'];
  assert.deepEqual(shown((await listOf(tenant, first.body.id, '?order=asc')).body.data), whole, 'nothing that came later');
  const list = await listOf(tenant, second.body.id, '?order=asc');
  assert.deepEqual(shown(list.body.data), [...whole, 'assistant: one', 'user: /say two']);
  assert.deepEqual(list.body.data[4], first.body.output[0]);
  assert.deepEqual(list.body.data[2].content, [{ type: 'output_text', text: 'earlier answer', annotations: [] }]);
  assert.equal(new Set(list.body.data.map((item: { id: string }) => item.id)).size, 6);
  assert.deepEqual((await listOf(tenant, second.body.id)).body.data, list.body.data.toReversed());
  const again = await tenant.post(pathOf(tenant), {
    input: [...list.body.data, ...second.body.output, { role: 'user', content: 'three' }],
  });
  assert.equal(again.headers.get('x-svc-session'), first.headers.get('x-svc-session'), 'sent back, they continue the session');
});

test('the message of a native turn and its answer, which has said nothing yet, are told apart by their ids', async () => {
  const tenant = await createTenant(url, { tools: ['bash'] });
  const id = await tenant.session();
  const send = () => tenant.post(`/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"echo hi"}' }, { 'idempotency-key': 'ask' });
  const paused = await send();
  const [, answer] = paused.body.messages;
  assert.match(answer.id, /^msg_[0-9A-Z]{26}_0$/);
  await tenant.put(`/v1/sessions/${id}/inputs/${paused.body.pending_input.request_id}`, { decision: 'approve_once' });
  assert.equal((await send()).text, paused.text, 'the same one in a repetition, also once the turn has gone on');
  const next = await tenant.post(pathOf(tenant), { input: '/say two', conversation: id });
  const list = (await listOf(tenant, next.body.id, '?order=asc')).body.data;
  assert.deepEqual(shown(list), [
    'user: /tool bash {"command":"echo hi"}',
    'mcp_approval_request: ',
    'mcp_approval_response: ',
    'assistant: bash answered: hi',
    'user: /say two',
  ]);
  assert.equal(list[0].id, answer.id.slice(0, -2));
  assert.ok(list.every((item: { id: string }) => item.id !== answer.id));
});

test('any of them sent back or referred to continues the session, as long as its response is kept', async () => {
  const tenant = await createTenant(url);
  const input = [
    { role: 'user', content: 'earlier question' },
    { role: 'user', content: '/tool bash {"command":"echo hi"}' },
  ];
  const asked = await tenant.post(pathOf(tenant), { input });
  const answer = { type: 'mcp_approval_response', approval_request_id: asked.body.output[0].id, approve: true };
  const first = await tenant.post(pathOf(tenant), { input: [answer], previous_response_id: asked.body.id });
  const { data } = (await listOf(tenant, first.body.id)).body;
  assert.equal(data.length, 4);
  const next = { role: 'user', content: '/say next' };
  for (const item of data) {
    for (const sent of [item, { type: 'item_reference', id: item.id }]) {
      const continued = await tenant.post(pathOf(tenant), { input: [sent, next] });
      assert.deepEqual([continued.status, continued.body.output_text], [200, 'next'], item.id);
      assert.equal(continued.headers.get('x-svc-session'), asked.headers.get('x-svc-session'), item.id);
    }
  }
  await tenant.delete(`${pathOf(tenant)}/${asked.body.id}`);
  const gone = await tenant.post(pathOf(tenant), { input: [{ type: 'item_reference', id: data.at(-1).id }, next] });
  assert.deepEqual([gone.status, gone.text], [404, notFoundText]);
});

test('pages in both directions', async () => {
  const tenant = await createTenant(url);
  const input = Array.from({ length: 25 }, (_, index) => ({ role: 'user', content: `m${index}` }));
  const { body } = await tenant.post(pathOf(tenant), { input });
  const names = input.map(({ content }) => `user: ${content}`);
  assert.equal((await listOf(tenant, body.id)).body.data.length, 20);
  for (const [order, expected] of [
    ['asc', names],
    ['desc', names.toReversed()],
  ] as const) {
    const seen: string[] = [];
    for (let query = `?order=${order}&limit=10`, more = true; more; ) {
      const page = (await listOf(tenant, body.id, query)).body;
      assert.deepEqual([page.first_id, page.last_id], [page.data[0].id, page.data.at(-1).id]);
      seen.push(...shown(page.data));
      more = page.has_more;
      query = `?order=${order}&limit=10&after=${page.last_id}`;
    }
    assert.deepEqual(seen, expected);
    const { last_id: last } = (await listOf(tenant, body.id, `?order=${order}&limit=1000`)).body;
    const beyond = (await listOf(tenant, body.id, `?order=${order}&after=${last}`)).body;
    assert.deepEqual(beyond, { object: 'list', data: [], first_id: null, last_id: null, has_more: false });
    assert.equal((await listOf(tenant, body.id, `?order=${order}&after=msg_other`)).status, 422);
  }
  assert.deepEqual(shown((await listOf(tenant, body.id, '?limit=0')).body.data), ['user: m24']);
  for (const query of ['?order=up', '?limit=x']) assert.equal((await listOf(tenant, body.id, query)).status, 422);
  assert.equal((await listOf(tenant, body.id, '?include[]=message.input_image.image_url')).status, 200);
});

test('a page of long items ends early, in both directions, and the next one goes on after it', async () => {
  const tenant = await createTenant(url);
  let id: string | undefined;
  const turns = 13;
  for (let index = 0; index < turns; index += 1) {
    // Two of the longest are about as much as the model takes at a time.
    const input = ['x'.repeat(200_000), `/say ${index}\n${'x'.repeat(190_000)}`].map((content) => ({ role: 'user', content }));
    const response = await tenant.post(pathOf(tenant), { input, ...(id === undefined ? {} : { previous_response_id: id }) });
    assert.equal(response.status, 200, response.text);
    id = response.body.id;
  }
  const ids = new Map<string, string[]>();
  for (const order of ['asc', 'desc']) {
    const seen: string[] = [];
    for (let query = `?order=${order}&limit=100`, more = true; more; ) {
      const page = await listOf(tenant, id ?? '', query);
      assert.ok(page.text.length < 4_001_000, `${page.text.length}`);
      assert.ok(page.body.data.length > 0);
      seen.push(...page.body.data.map((item: { id: string }) => item.id));
      more = page.body.has_more;
      query = `?order=${order}&limit=100&after=${page.body.last_id}`;
    }
    ids.set(order, seen);
  }
  assert.equal(new Set(ids.get('asc')).size, 3 * turns - 1, 'with the answers, but for the last');
  assert.deepEqual(ids.get('desc'), ids.get('asc')?.toReversed());
});

test('an approval and its answer are items, and the answer is the input of what follows it', async () => {
  const tenant = await createTenant(url);
  const asked = await tenant.post(pathOf(tenant), { input: '/tool bash {"command":"echo hi"}' });
  const [request] = asked.body.output;
  const answer = { type: 'mcp_approval_response', approval_request_id: request.id, approve: true };
  const done = await tenant.post(pathOf(tenant), { input: [answer], previous_response_id: asked.body.id });
  const items = (await listOf(tenant, done.body.id)).body.data;
  assert.deepEqual(items[0], { id: `${request.id}_response`, ...answer });
  assert.deepEqual(items[1], request);
  assert.deepEqual(shown(items.slice(2)), ['user: /tool bash {"command":"echo hi"}']);
  assert.equal((await listOf(tenant, asked.body.id)).body.data.length, 1);
  const next = await tenant.post(pathOf(tenant), { input: '/say next', previous_response_id: done.body.id });
  assert.deepEqual((await listOf(tenant, next.body.id)).body.data[1], done.body.output[0]);
});

test('a response that waits for another has its input already', async () => {
  const tenant = await createTenant(url);
  const running = await tenant.stream(pathOf(tenant), { stream: true, input: '/delay 30\n/words 400' });
  const { response } = (await running.next())?.data ?? {};
  const waiting = await tenant.stream(pathOf(tenant), { stream: true, input: '/say later', previous_response_id: response.id });
  const { response: later } = (await waiting.next())?.data ?? {};
  assert.deepEqual(shown((await listOf(tenant, later.id)).body.data), ['user: /say later', 'user: /delay 30\n/words 400']);
  await tenant.post(`${pathOf(tenant)}/${response.id}/cancel`);
  await waiting.rest();
  const items = shown((await listOf(tenant, later.id)).body.data);
  assert.deepEqual([items.length, items[0], items[2]], [3, 'user: /say later', 'user: /delay 30\n/words 400']);
});

test('only those who may see the response see its input, and only as long as it is kept', async () => {
  const tenant = await createTenant(url);
  const other = await createTenant(url);
  const { body } = await tenant.post(pathOf(tenant), { input: '/say hi', metadata: { end_user_id: 'anna' } });
  const anna = await withToken(tenant, { end_user_id: 'anna' });
  assert.equal((await anna.get(`${pathOf(tenant)}/${body.id}/input_items`)).status, 200);
  for (const stranger of [other, await withToken(tenant, { end_user_id: 'ben' })]) {
    const refused = await stranger.get(`${pathOf(tenant)}/${body.id}/input_items?order=up`);
    assert.deepEqual([refused.status, refused.text], [404, notFoundText]);
  }
  assert.equal((await fetch(`${url}${pathOf(tenant)}/${body.id}/input_items`)).status, 401);
  assert.equal((await listOf(tenant, 'resp_unknown')).text, notFoundText);
  await tenant.delete(`${pathOf(tenant)}/${body.id}`);
  assert.equal((await listOf(tenant, body.id)).text, notFoundText);
  const unstored = await tenant.post(pathOf(tenant), { input: '/say hi', store: false });
  assert.equal((await listOf(tenant, unstored.body.id)).text, notFoundText);
});
