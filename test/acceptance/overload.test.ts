// More than the server can carry. The figures of a quiet machine are in bench/results.md; here they only must not be far off.
// One engine: this is about who is let in, and what is allowed or refused.
// Runs alone: beside other tests, it cannot send more than the server can carry.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultRoom } from '../../src/load/waiting-room.ts';
import { startApp } from '../support/app.ts';
import { percentile, runClients, sendFlood, type Target } from '../support/flood.ts';
import { startServer } from '../support/server-process.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { connect } from '../support/wire.ts';

const server = await startServer({ after }, { settings: { PARLEY_RATE_LIMIT_RPS: '0' } });
const wire = connect(server.url, server.apiKey);
const seconds = 6;

test('at three times what it can carry it goes on serving, sheds the rest with 503, and is well again within 5 s', async (t) => {
  const target: Target = {
    url: `${server.url}/demo/assistant/v1/chat/completions`,
    key: server.apiKey,
    body: '{"messages":[{"role":"user","content":"/words 20"}]}',
  };
  const clients = Array<Target>(32).fill(target);
  await runClients(clients, AbortSignal.timeout(700));
  const capacity = (await runClients(clients, AbortSignal.timeout(1_500))).length / 1.5;

  const flood = sendFlood(target, capacity, seconds);
  await sleep(seconds * 900);
  assert.equal((await wire.get('/healthz')).status, 200, 'its health is told at any time');
  const report = await flood;

  const begun = performance.now();
  const [time] = await runClients([target], AbortSignal.timeout(1));
  assert.ok(performance.now() - begun < 5_000 && time !== undefined, 'the next turn is answered at once');

  t.diagnostic(JSON.stringify({ capacity, ...report, shed: report.shed.length, recoveredMs: time }));
  assert.deepEqual(Object.keys(report.statuses).toSorted(), ['200', '503'], 'nothing but served and shed');
  assert.ok(report.servedInTime / seconds > 0.4 * capacity, `${report.servedInTime / seconds} of ${capacity} turns/s were served`);
  for (const { retryAfter, shouldRetry, text } of report.shed) {
    assert.match(retryAfter ?? '', /^[1-3]$/);
    assert.equal(shouldRetry, 'true');
    assert.deepEqual(JSON.parse(text), {
      detail: 'The server is overloaded.',
      error: { message: 'The server is overloaded.', type: 'server_error', code: 'unavailable', param: null },
    });
  }
});

test('where the running turns are the limit, as with slow models, three times the load does not lower what is served', async (t) => {
  const limited = await startServer(t, { settings: { PARLEY_RATE_LIMIT_RPS: '0', PARLEY_MAX_TURNS: '20' } });
  const target: Target = {
    url: `${limited.url}/demo/assistant/v1/chat/completions`,
    key: limited.apiKey,
    body: '{"messages":[{"role":"user","content":"/delay 100\\n/words 6"}]}',
  };
  const capacity = (await runClients(Array<Target>(20).fill(target), AbortSignal.timeout(2_000))).length / 2;
  const { statuses, shed } = await sendFlood(target, capacity, 4);
  t.diagnostic(JSON.stringify({ capacity, statuses }));
  assert.deepEqual(Object.keys(statuses).toSorted(), ['200', '503']);
  assert.ok((statuses[200] ?? 0) / 4 > 0.9 * capacity, `${statuses[200]} turns in 4 s, of ${capacity} a second`);
  for (const { retryAfter } of shed) assert.match(retryAfter ?? '', /^[1-3]$/);
});

test("one organization's flood does not become another's", async (t) => {
  const guest = await createTenant(server.url);
  const target = { url: `${server.url}/v1/sessions/${await guest.session()}/messages`, key: guest.key, body: '{"text":"/words 20"}' };
  const session = async () => ({ ...target, url: `${server.url}/v1/sessions/${(await wire.post('/v1/sessions', {})).body.id}/messages` });
  const crowd: Target[] = [];
  for (let index = 0; index < 128; index += 1) crowd.push({ ...(await session()), key: server.apiKey });
  const median = async () => percentile(await runClients([target], AbortSignal.timeout(1_500)), 0.5);

  const before = await median();
  const flood = new AbortController();
  const flooding = runClients(crowd, flood.signal);
  await sleep(500);
  const beside = await median();
  flood.abort();
  const times = await flooding;
  const alone = Math.max(before, await median());
  t.diagnostic(JSON.stringify({ alone, beside, crowd: percentile(times, 0.5) }));
  assert.ok(beside < 8 * alone, `${beside} ms beside the flood, ${alone} ms alone`);
  assert.ok(percentile(times, 0.5) > 2 * beside, 'the crowd waits for itself');
});

test('every wire says 503 in its own shape when a place cannot be had', async (t) => {
  const app = await startApp(t);
  const url = await app.listen();
  const tenant: Tenant = await createTenant(url);
  const id = await tenant.session();
  // Nobody leaves, and nobody else is let in.
  const { waitingRoom } = app.context;
  for (let index = 0; index < defaultRoom.places + 8; index += 1) void waitingRoom.enter(tenant.orgId, () => false);
  await sleep(1_100);
  const detail = 'The server is overloaded.';
  const error = { message: detail, type: 'server_error', code: 'unavailable', param: null };
  const minted = { error: 'unavailable', message: detail };
  const text = { text: 'hi' };
  const calls: [path: string, body: unknown, expected: unknown][] = [
    ['/v1/sessions', {}, { detail }],
    [`/v1/sessions/${id}/messages`, text, { detail }],
    [`/v1/sessions/${id}/messages`, { ...text, stream: true }, { detail }],
    [`${tenant.agentPath}/v1/sessions/${id}/messages`, text, { detail }],
    [`${tenant.agentPath}/v1/managed-agents/sessions/${id}/events`, { type: 'user.message', ...text }, { detail }],
    [`${tenant.agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content: 'hi' }] }, { detail, error }],
    [`${tenant.agentPath}/v1/responses`, { input: 'hi', stream: true }, { detail, error }],
    ['/api/agents', { slug: 'other' }, { detail }],
    ['/api/agents/helper/session_tokens', {}, minted],
  ];
  const ids = new Set<string | null>();
  // The second of each is told what the first was, without another look.
  for (const [path, body, expected] of [...calls, ...calls]) {
    const answer = await tenant.post(path, body);
    assert.deepEqual([answer.status, answer.body], [503, expected], path);
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-3]$/);
    assert.equal(answer.headers.get('x-should-retry'), 'true');
    assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
    ids.add(answer.headers.get('x-request-id'));
  }
  assert.equal(ids.size, 2 * calls.length);
  const stranger = await fetch(`${url}/v1/sessions`, { method: 'POST', headers: { authorization: 'Bearer svc_live_nobody' } });
  assert.equal(stranger.status, 401);
  await stranger.body?.cancel();
});
