import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { startMcpServer } from '../support/mcp-server.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { untilAccepted } from '../support/turns.ts';
import { until } from '../support/until.ts';
import { textOf } from '../support/wire.ts';

const app = await startApp({ after }, { settings: { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
const url = await app.listen();

const stop = async (tenant: Tenant, id: string) => {
  const answer = await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  assert.equal(answer.status, 204);
};

const log = async (tenant: Tenant, id: string) =>
  (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body.events as { type: string; [field: string]: unknown }[];

test('a stop inside a model call keeps what was said, and marks it', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/delay 60000\n/say one two', stream: true });
  const begun = await stream.until('text');
  await stop(tenant, id);
  const rest = await stream.rest();
  assert.deepEqual(rest.at(-1)?.data.data.stop_reason, 'interrupted');
  assert.equal(textOf([...begun, ...rest]), 'one ');
  const message = (await log(tenant, id)).find((event) => event.type === 'agent.message');
  assert.deepEqual([message?.text, message?.partial], ['one ', true]);
  const transcript = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(transcript.body.messages[1].text, 'one ');
  await tenant.post('/v1/sessions', { session_id: id });
  assert.match((await tenant.say(id, 'hello again')).text, /turn 2/, 'and the conversation goes on');
});

test('a unary caller of a stopped turn gets the partial answer, marked', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const answer = tenant.post(`/v1/sessions/${id}/messages`, { text: '/delay 60000\n/say one two' });
  await until(async () => (await log(tenant, id)).some((event) => event.type === 'session.status_running'));
  await stop(tenant, id);
  const { status, body } = await answer;
  assert.equal(status, 200);
  assert.equal(body.stop_reason, 'interrupted');
  assert.ok(['', 'one '].includes(body.text));
});

test('a stop inside a tool ends the tool, and its call has a result that says so', async (context) => {
  const shop = await startMcpServer('secret-token');
  context.after(() => shop.close());
  const tenant = await createTenant(url);
  await tenant.put('/api/model_credentials/shop_token', { api_key: 'secret-token' });
  const mcp_servers = [{ name: 'shop', url: shop.url, credential: 'shop_token' }];
  const version = await tenant.release({ mcp_servers, permissions: { mode: 'autonomous' } });
  await until(async () => (await tenant.get(`/api/agents/helper/releases/${version}`)).body.release.state === 'materialized');
  const id = await tenant.session();
  const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/tool shop__hang {}\n/say never', stream: true });
  await stream.until('tool_use');
  await until(async () => shop.requests.some((request) => request.includes('tools/call')));
  await stop(tenant, id);
  const rest = await stream.rest();
  assert.deepEqual(
    rest.map((frame) => frame.event),
    ['tool_use', 'step_finish', 'done'],
  );
  assert.equal(rest[0]?.data.data.part.state, 'interrupted');
  assert.equal(rest.at(-1)?.data.data.stop_reason, 'interrupted');
});

test('a stop inside a pause withdraws the question', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const { pending_input } = await tenant.say(id, '/tool bash {"command":"echo hi"}');
  await stop(tenant, id);
  await until(async () => (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body.status === 'idle');
  const events = await log(tenant, id);
  assert.equal(events.at(-1)?.stop_reason, 'interrupted');
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.pending_input, null);
  const late = await tenant.put(`/v1/sessions/${id}/inputs/${pending_input.request_id}`, { decision: 'approve_once' });
  assert.deepEqual([late.status, late.body.detail.error], [409, 'input_mismatch']);
  await tenant.post('/v1/sessions', { session_id: id });
  assert.equal((await tenant.say(id, '/say on')).text, 'on');
});

test('an answer and a stop at the same moment: the turn ends, whichever came first', async () => {
  const tenant = await createTenant(url);
  await Promise.all(
    Array.from({ length: 12 }, async () => {
      const id = await tenant.session();
      const { pending_input } = await tenant.say(id, '/tool files {"operation":"write","path":"a","content":"x"}\n/delay 60000\n/say a b');
      const [answer] = await Promise.all([
        tenant.put(`/v1/sessions/${id}/inputs/${pending_input.request_id}`, { decision: 'approve_once' }),
        stop(tenant, id),
      ]);
      assert.ok([200, 409].includes(answer.status), answer.text);
      await until(async () => (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body.status === 'idle');
      assert.equal((await log(tenant, id)).at(-1)?.stop_reason, 'interrupted');
    }),
  );
});

test('a stop at the moment when the next turn begins is not lost', async () => {
  const tenant = await createTenant(url);
  await Promise.all(
    Array.from({ length: 12 }, async (_, index) => {
      const id = await tenant.session();
      const first = tenant.say(id, `/delay ${index}\n/words 4`);
      await untilAccepted(app, id, 1);
      const second = tenant.post(`/v1/sessions/${id}/messages`, { text: '/delay 60000\n/say held up' });
      await first;
      await stop(tenant, id);
      assert.equal((await second).status, 200);
      assert.equal((await log(tenant, id)).at(-1)?.stop_reason, 'interrupted');
    }),
  );
});

for (const kind of ['interrupt', 'stop'] as const) {
  test(`a turn that asks for an approval just after ${kind === 'stop' ? 'a stop' : 'an interrupt'} ends, and what waits behind it is not held up`, async (context) => {
    const tenant = await createTenant(url);
    const id = await tenant.session();
    const { log: writes, turns } = app.context;
    const apply = writes.apply.bind(writes);
    context.mock.method(writes, 'apply', async (operation: Parameters<typeof apply>[0]) => {
      if (operation.kind === 'pause' && operation.session === id) await turns.interrupt(tenant.orgId, id, kind);
      return apply(operation);
    });
    const answer = await tenant.say(id, '/tool bash {"command":"echo hi"}');
    assert.deepEqual([answer.stop_reason, answer.pending_input], ['interrupted', undefined]);
    const session = await tenant.post('/v1/sessions', { session_id: id });
    assert.deepEqual([session.body.status, session.body.pending_input], ['active', null]);
    const [, , , interrupt, result, end] = await log(tenant, id);
    assert.deepEqual([interrupt?.type, result?.type, end?.stop_reason], ['user.interrupt', 'agent.tool_result', 'interrupted']);
    assert.equal((await tenant.say(id, '/say next')).text, 'next');
  });
}

test('cancelling a turn that has paused or ended changes nothing, also while another one runs', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const { database, turns } = app.context;
  const cancel = async (sessionId: string) => {
    const { id: first } = await database.db
      .selectFrom('turns')
      .select('id')
      .where('session_id', '=', id)
      .orderBy('id')
      .executeTakeFirstOrThrow();
    return turns.cancel(tenant.orgId, sessionId, first);
  };
  const { pending_input: pending } = await tenant.say(id, '/tool bash {"command":"echo hi"}');
  const paused = await log(tenant, id);
  assert.equal(await cancel(id), false);
  assert.deepEqual(await log(tenant, id), paused);
  const resolved = await tenant.put(`/v1/sessions/${id}/inputs/${pending.request_id}`, { decision: 'approve_once' });
  assert.equal(resolved.body.events.at(-1).type, 'done');
  const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/delay 10\n/words 5', stream: true });
  await stream.until('text');
  assert.equal(await cancel(id), false);
  assert.equal(await cancel(await tenant.session()), false, 'a turn of another session');
  assert.equal((await stream.rest()).at(-1)?.data.data.stop_reason, undefined);
});
