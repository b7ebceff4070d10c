// What an operator sees: a line for each request and each turn, and numbers at /metrics; nothing of what is said, no secret.
// One engine: this is about how a process begins and ends.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/wire.ts';

const server = await startServer({ after }, { settings: { PARLEY_LOG_LEVEL: 'info', PARLEY_RATE_LIMIT_RPS: '0' } });
const wire = connect(server.url, server.apiKey);

interface Line {
  level: number;
  time: string;
  msg: string;
  [field: string]: unknown;
}

function lines(): Line[] {
  return server
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

async function lineWhere(isIt: (line: Line) => boolean): Promise<Line> {
  await until(async () => lines().some(isIt), 5_000, `a line of the log for which ${isIt}`);
  return lines().find(isIt) as Line;
}

test('a turn is a line for its request and one for itself, with the same ids', async () => {
  const session = await wire.post('/v1/sessions', { metadata: { end_user_id: 'a-private-person' } });
  const said = await wire.post(`/v1/sessions/${session.body.id}/messages?debug=a-private-query`, { text: '/say a-private-sentence' });
  const { time, ms, ...line } = await lineWhere((candidate) => candidate.request_id === said.headers.get('x-request-id'));
  assert.match(time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  assert.equal(typeof ms, 'number');
  const { turn_id: turnId, org_id: orgId } = line;
  assert.match(String(turnId), /^turn_/);
  assert.equal(typeof orgId, 'number');
  assert.deepEqual(line, {
    level: 30,
    request_id: said.headers.get('x-request-id'),
    org_id: orgId,
    session_id: session.body.id,
    turn_id: turnId,
    method: 'POST',
    route: '/v1/sessions/:session_id/messages',
    status: 200,
    msg: 'request',
  });
  const turn = await lineWhere((candidate) => candidate.msg === 'turn ended' && candidate.turn_id === turnId);
  assert.deepEqual(
    [turn.level, turn.org_id, turn.session_id, turn.outcome, typeof turn.ms],
    [30, orgId, session.body.id, 'end_turn', 'number'],
  );
});

test('a turn that failed says why, in its line and in a number', async () => {
  const session = await wire.post('/v1/sessions', {});
  await wire.post(`/v1/sessions/${session.body.id}/messages`, { text: '/fail unauthorized' });
  const { level, outcome, code, provider } = await lineWhere((line) => line.msg === 'turn ended' && line.session_id === session.body.id);
  assert.deepEqual([level, outcome, code, provider], [30, 'failed', 'byok_key_rejected', 'offline']);
  const { text } = await wire.get('/metrics');
  assert.match(text, /^parley_turn_failures_total\{code="byok_key_rejected",provider="offline"\} 1$/m);
});

test('how long a turn takes is measured to its pause, and from there to its end', async () => {
  const measured = async () => Number(/^parley_turn_seconds_count (\d+)$/m.exec((await wire.get('/metrics')).text)?.[1]);
  const ended = async () => Number(/^parley_turns_total\{outcome="end_turn"\} (\d+)$/m.exec((await wire.get('/metrics')).text)?.[1]);
  const session = await wire.post('/v1/sessions', {});
  const before = [await measured(), await ended()] as const;
  const paused = await wire.post(`/v1/sessions/${session.body.id}/messages`, { text: '/tool bash {"command":"echo hello"}' });
  assert.deepEqual([await measured(), await ended()], [before[0] + 1, before[1]]);
  const requestId = paused.body.pending_input.request_id;
  await wire.put(`/v1/sessions/${session.body.id}/inputs/${requestId}`, { decision: 'approve_once' });
  assert.deepEqual([await measured(), await ended()], [before[0] + 2, before[1] + 1]);
});

test('the other wires too, a refusal, and a client that left', async () => {
  const chat = await wire.post('/demo/assistant/v1/chat/completions', { messages: [{ role: 'user', content: '/say a-private-sentence' }] });
  const line = await lineWhere((candidate) => candidate.request_id === chat.headers.get('x-request-id'));
  assert.equal(line.session_id, chat.headers.get('x-svc-session'));
  assert.match(String(line.turn_id), /^turn_/);

  const refused = await connect(server.url, 'svc_live_a_private_wrong_key').get(`/v1/sessions/${line.session_id}`);
  const refusal = await lineWhere((candidate) => candidate.request_id === refused.headers.get('x-request-id'));
  assert.deepEqual([refusal.status, refusal.org_id, refusal.session_id], [401, undefined, undefined]);

  const stream = await wire.stream(`/v1/sessions/${line.session_id}/messages`, { text: '/delay 50\n/words 20', stream: true });
  await stream.until('text');
  const requestId = stream.response.headers.get('x-request-id');
  await stream.leave();
  const left = await lineWhere((candidate) => candidate.request_id === requestId);
  assert.deepEqual([left.status, left.client_left], [200, true]);
  await lineWhere((candidate) => candidate.msg === 'turn ended' && candidate.turn_id === left.turn_id);
});

test('a client that left before it was answered is not one that got a 200', async () => {
  const session = await wire.post('/v1/sessions', {});
  const path = `/v1/sessions/${session.body.id}/messages`;
  const headers = { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' };
  const leaving = new AbortController();
  const body = JSON.stringify({ text: '/delay 50\n/words 20' });
  const answer = fetch(server.url + path, { method: 'POST', headers, body, signal: leaving.signal });
  setTimeout(() => leaving.abort(), 300);
  await assert.rejects(answer);
  const left = await lineWhere((line) => line.msg === 'request' && line.session_id === session.body.id && line.client_left === true);
  assert.equal(left.status, 499);
  const { text } = await wire.get('/metrics');
  assert.match(text, /^parley_http_request_seconds_count\{method="POST",route="\/v1\/sessions\/:session_id\/messages",status="499"\} 1$/m);
  await lineWhere((line) => line.msg === 'turn ended' && line.session_id === session.body.id);
});

test('no line holds a secret, or what was said', async () => {
  await wire.put('/api/model_credentials/openai', { api_key: 'sk-a-private-key' });
  const minted = await wire.post('/api/agents/assistant/session_tokens', { end_user_id: 'a-private-person' });
  await connect(server.url, minted.body.token).get('/demo/assistant/v1/managed-agents/sessions?end_user=a-private-person');
  await wire.post('/api/api_keys', { name: 'A-private-name', scopes: [] });
  const last = await wire.get('/v1/sessions/a-private-id');
  await lineWhere((candidate) => candidate.request_id === last.headers.get('x-request-id'));
  const printed = JSON.stringify(lines());
  assert.ok(lines().length > 8, 'there are lines to look at');
  for (const secret of [server.apiKey, server.operatorKey, minted.body.token, 'private', 'Bearer', 'svc_live_'])
    assert.equal(printed.toLowerCase().includes(secret.toLowerCase()), false, secret);
});

test('probes are counted and not written down', async () => {
  await wire.get('/healthz');
  await wire.get('/readyz');
  const last = await wire.get('/v1/sessions/none');
  await lineWhere((candidate) => candidate.request_id === last.headers.get('x-request-id'));
  assert.equal(
    lines().some((line) => line.route === '/healthz' || line.route === '/readyz'),
    false,
  );
});

test('/metrics has turns, queues, latencies, tokens, streams, deliveries, the event loop, the database and what was shed', async () => {
  const { status, text, headers } = await wire.get('/metrics');
  assert.equal(status, 200);
  assert.match(headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  const value = (name: string) => {
    const found = new RegExp(`^${name.replaceAll(/[{}]/g, '\\$&')} (\\S+)$`, 'm').exec(text)?.[1];
    assert.ok(found !== undefined, `${name} is missing`);
    return Number(found);
  };
  assert.ok(value('parley_turns_total{outcome="end_turn"}') >= 3);
  assert.ok(value('parley_turn_seconds_count') >= 3);
  assert.ok(value('parley_tokens_total{kind="input"}') > 0 && value('parley_tokens_total{kind="output"}') > 0);
  assert.ok(value('parley_http_request_seconds_count{method="POST",route="/v1/sessions/:session_id/messages",status="200"}') >= 2);
  assert.ok(value('parley_database_connections') >= 1);
  assert.ok(value('process_open_fds') > 10);
  assert.doesNotMatch(text, /nodejs_active_/);
  for (const name of [
    'parley_turns_running',
    'parley_watchers',
    'parley_requests_waiting',
    'parley_requests_working',
    'parley_requests_shed_total',
    'parley_log_writes_waiting',
    'parley_streams_open',
    'parley_streams_cut_total',
    'parley_deliveries_running',
    'parley_deliveries_delivered_total',
    'parley_deliveries_failed_total',
    'parley_database_connections_idle',
    'parley_database_waiting',
  ])
    assert.equal(value(name), name === 'parley_database_connections_idle' ? value(name) : 0, name);
  assert.ok(value('nodejs_eventloop_lag_p99_seconds') >= 0);
  assert.ok(value('process_resident_memory_bytes') > 0);
  for (const customer of ['demo', 'assistant', 'ses_', 'private']) assert.equal(text.includes(customer), false, customer);
});

test('every metric in the rules for Prometheus exists', async () => {
  const rules = readFileSync(new URL('../../deploy/prometheus-rules.yaml', import.meta.url), 'utf8');
  const named = new Set(rules.match(/^ *expr: .*$/gm)?.flatMap((line) => line.match(/\b(parley|nodejs|process)_\w+/g) ?? []));
  const served = new Set((await wire.get('/metrics')).text.match(/(?<=^# TYPE )\w+/gm));
  // This server has no Redis, and no workers.
  assert.deepEqual(
    [...named].filter((name) => !served.has(name)),
    ['parley_redis_connected', 'parley_workers_silent'],
  );
});
