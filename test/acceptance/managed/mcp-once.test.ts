// Calls of a session's MCP servers under an Idempotency-Key.
import assert from 'node:assert/strict';
import { after, mock, test } from 'node:test';
import { ServiceError } from '../../../src/errors.ts';
import { ManagedClient } from '../../support/managed.ts';
import { startAppWithMcp } from '../../support/mcp-app.ts';
import { until } from '../../support/until.ts';

const { app, server, crm, release } = await startAppWithMcp({ after });
const url = await app.listen();
await release('crm', { mcp_servers: [crm] });
await release('free', { mcp_servers: [crm], permissions: { mode: 'autonomous' } });

const client = new ManagedClient(app, app.apiKey, 'demo/crm');

test('a call under an Idempotency-Key reaches the server once; a failed one may be tried again', async () => {
  const [id, other] = [await client.create(), await client.create()];
  // Warming asks the same server.
  for (const session of [id, other]) await app.context.warm.of(session)?.done;
  const call = (name: string, key: string, session = id) =>
    client.request(
      'POST',
      '/mcp',
      { method: 'tools/call', params: { name, arguments: { name: 'Ada' } } },
      { 'x-svc-session': session, 'idempotency-key': key },
    );
  const first = await call('find', 'mcp-1');
  assert.equal(first.status, 200, first.text);
  const asked = server.requests.length;
  const again = await call('find', 'mcp-1');
  assert.deepEqual([again.status, again.headers['idempotent-replayed'], again.text], [200, 'true', first.text]);
  assert.equal(server.requests.length, asked);
  for (const reused of [await call('leak', 'mcp-1'), await call('find', 'mcp-1', other)]) {
    assert.equal(reused.status, 422, reused.text);
    assert.equal(reused.body.detail.error, 'idempotency_key_reused');
  }
  assert.deepEqual([(await call('nothing', 'mcp-2')).status, (await call('find', 'mcp-2')).status], [400, 200]);
  const calls = () => server.requests.filter((request) => request === 'POST tools/call').length;
  const before = calls();
  const [one, two] = await Promise.all([call('find', 'mcp-3'), call('find', 'mcp-3')]);
  assert.equal(calls(), before + 1);
  assert.ok([one, two].every(({ status }) => status === 200 || status === 409) && [one, two].some(({ status }) => status === 200));
});

test('the key of a call whose process died is let go: what may be repeated is called again, and of the rest the outcome is unknown', async () => {
  const free = new ManagedClient(app, app.apiKey, 'demo/free');
  const id = await free.create();
  const call = (name: string, signal?: AbortSignal) => {
    const body = { method: 'tools/call', params: { name, arguments: { name: 'Ada', to: 'Bo' } } };
    const headers = { authorization: `Bearer ${app.apiKey}`, 'content-type': 'application/json', 'x-svc-session': id };
    const init = { method: 'POST', headers: { ...headers, 'idempotency-key': `died in ${name}` }, body: JSON.stringify(body) };
    return fetch(`${url}/demo/free/v1/managed-agents/mcp`, { ...init, ...(signal === undefined ? {} : { signal }) });
  };
  const { db } = app.context.database;
  /** As a process leaves it that died in the middle of the call. */
  const die = (name: string) =>
    db
      .updateTable('idempotency_keys')
      .set({ response: null, held_until: new Date(Date.now() - 1) })
      .where('key', '=', `died in ${name}`)
      .execute();
  const calls = () => server.requests.filter((request) => request === 'POST tools/call').length;
  const codeOf = async (answer: Response): Promise<string> => JSON.parse(await answer.text()).detail.error;

  for (const [name, times] of [
    ['find', 2],
    ['rename', 2],
    ['fail', 1],
  ] as const) {
    const before = calls();
    assert.equal((await call(name)).status, 200);
    await die(name);
    const [again, later] = [await call(name), await call(name)];
    assert.deepEqual([again.status, later.status, calls() - before], times === 2 ? [200, 200, 2] : [409, 409, 1], name);
    assert.equal(later.headers.get('idempotent-replayed'), times === 2 ? 'true' : null);
    if (times === 2) continue;
    assert.equal(later.headers.get('x-should-retry'), 'false');
    assert.equal(await codeOf(later), 'outcome_unknown');
  }

  const before = calls();
  const leaves = new AbortController();
  const hanging = call('hang', leaves.signal).catch(() => {});
  await until(async () => calls() > before);
  const held = () => db.selectFrom('idempotency_keys').select('held_until').where('key', '=', 'died in hang').executeTakeFirstOrThrow();
  const first = (await held()).held_until ?? new Date(0);
  await until(async () => ((await held()).held_until ?? first) > first);
  const meanwhile = await call('hang');
  assert.deepEqual([meanwhile.status, await codeOf(meanwhile)], [409, 'idempotency_key_in_use'], 'while it lives it holds on');
  assert.equal(meanwhile.headers.get('x-should-retry'), 'true');
  const failures = mock.method(app.context.logger, 'error');
  leaves.abort();
  await hanging;
  await until(async () => (await codeOf(await call('hang', AbortSignal.timeout(5_000)))) === 'outcome_unknown');
  assert.equal(calls(), before + 1, 'nor is it called again for one who left and came back');
  assert.equal(failures.mock.callCount(), 0, 'one who leaves is no failure of ours');
  failures.mock.restore();
});

for (const outcome of ['fails', 'is answered'] as const) {
  test(`a call that was halted for longer than its hold and then ${outcome} leaves the key to the repetition that took it over`, async (t) => {
    const key = `halted, then ${outcome}`;
    const id = await client.create();
    const call = () => client.request('POST', '/mcp', { method: 'tools/list' }, { 'x-svc-session': id, 'idempotency-key': key });
    const answers = [Promise.withResolvers<object>(), Promise.withResolvers<object>()];
    let begun = 0;
    t.mock.method(app.context.mcpProxy, 'request', () => {
      begun += 1;
      return answers[begun - 1]?.promise ?? Promise.resolve({ answer: begun });
    });
    const first = call();
    await until(async () => begun === 1);
    const past = new Date(Date.now() - 1);
    await app.context.database.db.updateTable('idempotency_keys').set({ held_until: past }).where('key', '=', key).execute();
    const second = call();
    await until(async () => begun === 2);
    if (outcome === 'fails') answers[0]?.reject(new ServiceError('upstream', 'refused'));
    else answers[0]?.resolve({ answer: 1 });
    assert.equal((await first).status, outcome === 'fails' ? 502 : 200);
    const third = await call();
    assert.deepEqual([third.status, third.body.detail?.error], [409, 'idempotency_key_in_use']);
    answers[1]?.resolve({ answer: 2 });
    assert.deepEqual((await second).body, { answer: 2 });
    const again = await call();
    assert.deepEqual([again.headers['idempotent-replayed'], again.body], ['true', { answer: 2 }]);
  });
}
