// Cancelling a response ends its turn and no other.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { notFoundText, sessionCount, withToken } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

const app = await startApp({ after });
const url = await app.listen();

const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/responses`;
const slow = '/delay 30\n/words 400';

/** Starts a response and returns its id with its stream. */
async function begin(tenant: Tenant, body: Record<string, unknown>) {
  const stream = await tenant.stream(pathOf(tenant), { stream: true, ...body });
  const id: string = (await stream.next())?.data.response.id;
  return { id, stream, cancel: () => tenant.post(`${pathOf(tenant)}/${id}/cancel`) };
}

test('a running response ends as incomplete, once for all, and the conversation goes on', async () => {
  const tenant = await createTenant(url);
  const { id, stream, cancel } = await begin(tenant, { input: slow });
  await stream.until('response.output_text.delta');
  const cancelled = await cancel();
  assert.equal(cancelled.status, 200, cancelled.text);
  assert.deepEqual([cancelled.body.status, cancelled.body.incomplete_details], ['incomplete', { reason: 'interrupted' }]);
  const last = (await stream.rest()).at(-1);
  assert.equal(last?.event, 'response.incomplete');
  assert.equal(JSON.stringify(last?.data.response), cancelled.text);
  assert.notEqual(cancelled.body.output_text, '');
  assert.equal(cancelled.headers.get('x-svc-session'), stream.response.headers.get('x-svc-session'));
  const next = await tenant.post(pathOf(tenant), { input: '/say next', previous_response_id: id });
  assert.equal(next.body.output_text, 'next');
  assert.equal((await cancel()).text, cancelled.text);
});

test('a response that has ended stays as it is, and the next one goes on', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { input: '/say done' });
  const { stream } = await begin(tenant, { input: '/delay 10\n/words 20', previous_response_id: first.body.id });
  assert.equal((await tenant.post(`${pathOf(tenant)}/${first.body.id}/cancel`)).text, first.text);
  assert.equal((await stream.rest()).at(-1)?.event, 'response.completed');
  const failed = await begin(tenant, { input: '/fail broken_stream' });
  await failed.stream.rest();
  assert.equal((await failed.cancel()).body.status, 'failed');
});

test('a response that waits for another never runs, and what waits behind it does', async () => {
  const tenant = await createTenant(url);
  const running = await begin(tenant, { input: slow });
  const conversation = running.stream.response.headers.get('x-svc-session');
  const waiting = await begin(tenant, { input: '/say never', conversation });
  const behind = await begin(tenant, { input: '/say behind', conversation });
  const cancelled = await waiting.cancel();
  assert.deepEqual([cancelled.status, cancelled.body.id, cancelled.body.status], [200, waiting.id, 'in_progress']);
  assert.equal((await running.cancel()).body.status, 'incomplete');
  const { response } = (await waiting.stream.rest()).at(-1)?.data ?? {};
  assert.deepEqual([response.status, response.output_text], ['incomplete', '']);
  assert.equal((await waiting.cancel()).text, JSON.stringify(response));
  assert.equal((await behind.stream.rest()).at(-1)?.data.response.output_text, 'behind');
});

test('a response that asks for an approval has ended, and so has its part of the turn', async () => {
  const tenant = await createTenant(url);
  const asked = await tenant.post(pathOf(tenant), { input: '/delay 30\n/tool bash {"command":"seq 400"}' });
  const cancelAsked = () => tenant.post(`${pathOf(tenant)}/${asked.body.id}/cancel`);
  assert.equal((await cancelAsked()).text, asked.text);
  const approval = { type: 'mcp_approval_response', approval_request_id: asked.body.output[0].id, approve: true };
  const continued = await begin(tenant, { input: [approval], previous_response_id: asked.body.id });
  await continued.stream.until('response.output_text.delta');
  assert.equal((await cancelAsked()).text, asked.text);
  assert.equal((await tenant.get(`${pathOf(tenant)}/${continued.id}`)).body.status, 'in_progress');
  assert.equal((await continued.cancel()).body.status, 'incomplete');
});

test('a response that is not kept can be cancelled, and leaves nothing behind', async () => {
  const tenant = await createTenant(url);
  const { stream, cancel } = await begin(tenant, { input: slow, store: false });
  await stream.until('response.output_text.delta');
  assert.equal((await cancel()).body.status, 'incomplete');
  assert.equal((await stream.rest()).at(-1)?.event, 'response.incomplete');
  await until(async () => (await sessionCount(tenant)) === 0);
  assert.equal((await cancel()).text, notFoundText);
});

test('only those who may see a response may cancel it', async () => {
  const tenant = await createTenant(url);
  const other = await createTenant(url);
  const { id, cancel } = await begin(tenant, { input: slow, metadata: { end_user_id: 'anna' } });
  const path = `${pathOf(tenant)}/${id}/cancel`;
  const strangers = [other, await withToken(tenant, { end_user_id: 'ben' })];
  for (const stranger of strangers) assert.equal((await stranger.post(path)).text, notFoundText);
  assert.equal((await tenant.post(`${pathOf(tenant)}/resp_unknown/cancel`)).text, notFoundText);
  const anna = await withToken(tenant, { end_user_id: 'anna' });
  assert.equal((await anna.post(path)).body.status, 'incomplete');
  assert.equal((await cancel()).status, 200);
});
