// One engine: this is about what a suspended organization may do.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant } from '../support/tenants.ts';
import { untilAccepted } from '../support/turns.ts';
import { until } from '../support/until.ts';

const app = await startApp({ after });
const url = await app.listen();

test('a suspended org is 403 everywhere, and itself again when it is resumed', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.operate({ status: 'suspended' });
  for (const answer of [
    await tenant.get(`/v1/sessions/${id}`),
    await tenant.post('/v1/sessions', {}),
    await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi' }),
    await tenant.get(`${tenant.agentPath}/v1/sessions`),
    await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`),
    await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`),
  ])
    assert.deepEqual([answer.status, answer.text], [403, '{"detail":"Organization suspended"}']);
  await tenant.operate({ status: 'active' });
  assert.equal((await tenant.say(id, '/say back')).text, 'back');
});

test('suspending an org ends what runs and what waits, and keeps its sessions and approvals for when it is resumed', {
  timeout: 20_000,
}, async () => {
  const tenant = await createTenant(url);
  const [id, asking] = [await tenant.session(), await tenant.session()];
  const { pending_input } = await tenant.say(asking, '/tool bash {"command":"echo hi"}');
  const send = (text: string) => tenant.post(`/v1/sessions/${id}/messages`, { text });
  const running = send('/delay 500\n/words 1000');
  await untilAccepted(app, id, 1);
  const waiting = send('/say never said');
  await untilAccepted(app, id, 2);
  await tenant.operate({ status: 'suspended' });
  for (const { body } of [await running, await waiting]) assert.equal(body.stop_reason, 'interrupted');
  assert.equal((await waiting).body.text, '');
  await tenant.operate({ status: 'active' });
  assert.equal((await tenant.say(id, '/say back')).text, 'back');
  const resolved = await tenant.put(`/v1/sessions/${asking}/inputs/${pending_input.request_id}`, { decision: 'approve_once' });
  assert.deepEqual([resolved.status, resolved.body.events.at(-1).type], [200, 'done']);
});

test('a turn that pauses while its org is being suspended goes on when the org is resumed and the approval is answered', {
  timeout: 20_000,
}, async (t) => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const { log, directory, runner } = app.context;
  const [suspended, paused] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const [apply, organizationById] = [log.apply.bind(log), directory.organizationById.bind(directory)];
  t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
    if (operation.kind === 'pause') await suspended.promise;
    return apply(operation);
  });
  const asked = tenant.say(id, '/tool bash {"command":"echo ran"}');
  await until(async () => (await eventTypes(id)).includes('tool-called'));
  // Whether the turn may run is found out only when it has paused.
  const checking = t.mock.method(directory, 'organizationById', async (...args: Parameters<typeof organizationById>) => {
    suspended.resolve();
    await paused.promise;
    return organizationById(...args);
  });
  await tenant.operate({ status: 'suspended' });
  const { pending_input } = await asked;
  await runner.idle();
  paused.resolve();
  await Promise.all(checking.mock.calls.map(({ result }) => result));
  await tenant.operate({ status: 'active' });
  await tenant.put(`/v1/sessions/${id}/inputs/${pending_input.request_id}`, { decision: 'approve_once' });
  assert.deepEqual(await toolOutputs(id), ['ran']);
});

test('an approval that is answered while its org is being suspended runs nothing', { timeout: 20_000 }, async (t) => {
  const tenant = await createTenant(url);
  const { log, directory, runner } = app.context;
  for (const moment of ['before the answer is stored', 'while it is found out whether the turn may go on']) {
    const id = await tenant.session();
    const { pending_input } = await tenant.say(id, '/tool bash {"command":"echo ran"}');
    const [answering, suspended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const [apply, organizationById] = [log.apply.bind(log), directory.organizationById.bind(directory)];
    if (moment.startsWith('before'))
      t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
        if (operation.kind === 'resolve') {
          answering.resolve();
          await suspended.promise;
        }
        return apply(operation);
      });
    else
      t.mock.method(
        directory,
        'organizationById',
        async (...args: Parameters<typeof organizationById>) => {
          const organization = await organizationById(...args);
          answering.resolve();
          await suspended.promise;
          return organization;
        },
        { times: 1 },
      );
    const answer = tenant.put(`/v1/sessions/${id}/inputs/${pending_input.request_id}`, { decision: 'approve_once' });
    await answering.promise;
    await tenant.operate({ status: 'suspended' });
    suspended.resolve();
    await answer;
    await runner.idle();
    t.mock.restoreAll();
    assert.deepEqual(await toolOutputs(id), ['Interrupted before it finished.'], moment);
    await tenant.operate({ status: 'active' });
  }
});

async function eventTypes(sessionId: string): Promise<string[]> {
  return (await app.context.log.readPage(sessionId, 0)).events.map(({ type }) => type);
}

async function toolOutputs(sessionId: string): Promise<string[]> {
  const { events } = await app.context.log.readPage(sessionId, 0);
  return events.flatMap((event) => (event.type === 'tool-finished' ? [event.data.output] : []));
}
