// Real server processes, killed as a power cut would, at every boundary of a turn that acts.
import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import { type KillPoint, type KillPoints, serveKillPoints } from '../support/kill-points.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';
import { connect, type Wire, type WireAnswer } from '../support/wire.ts';

const points = await serveKillPoints();
after(() => points.close());

const boundaries: KillPoint[] = [
  'the model was asked',
  'the model has called the tool',
  'the model has finished the call',
  'the tool has begun',
  'the tool has answered',
  'the model was asked again',
  'the model has answered',
];
const agentPath = '/demo/assistant/v1';
let count = 0;

interface LogEntry {
  seq: number;
  type: string;
  text?: string;
  stop_reason?: string;
  tool_use_id?: string;
  output?: string;
  input?: { marker: string };
}

interface Work {
  id: string;
  marker: string;
  /** Undefined when the server died before it answered. */
  answer: Promise<WireAnswer | undefined>;
}

async function serve(context: TestContext): Promise<{ server: ServerProcess; wire: Wire }> {
  const settings = { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1', PARLEY_LEASE_MS: '500', PARLEY_LOG_LEVEL: 'error' };
  const server = await startServer(context, { settings });
  const wire = connect(server.url, server.apiKey);
  const made = await wire.post('/api/agents/assistant/releases', { ...points.release, activate: true });
  assert.equal(made.status, 201, made.text);
  const { version } = made.body.release;
  await until(async () => (await wire.get(`/api/agents/assistant/releases/${version}`)).body.release.state === 'materialized');
  return { server, wire };
}

/** A session with one message that was answered, and so must never be lost. */
async function newWork(wire: Wire, body: Record<string, unknown> = {}): Promise<Omit<Work, 'answer'>> {
  count += 1;
  const marker = `m${process.pid}x${count}`;
  const { id } = (await wire.post('/v1/sessions', body)).body;
  const noted = await wire.post(`/v1/sessions/${id}/messages`, { text: `remember ${marker}` });
  assert.deepEqual([noted.status, noted.body?.text], [200, 'noted'], noted.text);
  return { id, marker };
}

const charge = (wire: Wire, { id, marker }: Omit<Work, 'answer'>): Work => ({
  id,
  marker,
  answer: wire.post(`/v1/sessions/${id}/messages`, { text: `charge ${marker}` }).catch(() => undefined),
});

async function settled(wire: Wire, id: string): Promise<LogEntry[]> {
  let events: LogEntry[] = [];
  await until(async () => {
    const { status, body } = await wire.get(`${agentPath}/managed-agents/sessions/${id}`);
    assert.equal(status, 200);
    events = body.events;
    return body.status === 'idle';
  });
  return events;
}

/** Whatever happened: no gap, no duplicate, an end for every turn, and no tool run twice. */
async function check(wire: Wire, { id, marker, answer }: Work, hasArrived: boolean): Promise<LogEntry[]> {
  const events = await settled(wire, id);
  assert.deepEqual(
    events.map((event) => event.seq),
    events.map((_, index) => index + 1),
  );
  const of = (type: string) => events.filter((event) => event.type === type);
  const messages = of('user.message');
  assert.equal(messages[0]?.text, `remember ${marker}`, 'what was acknowledged is there');
  if (hasArrived || (await answer)?.status === 200) assert.equal(messages[1]?.text, `charge ${marker}`);
  const ends = [...of('session.status_idle'), ...of('session.error')].filter((event) => event.stop_reason !== 'requires_action');
  assert.equal(ends.length, messages.length, `every turn has one end: ${JSON.stringify(events)}`);
  const uses = of('agent.tool_use').map((event) => event.tool_use_id);
  const results = of('agent.tool_result').map((event) => event.tool_use_id);
  assert.deepEqual(results, uses, 'every call has one result');
  const runs = points.runs.get(marker) ?? 0;
  assert.ok(runs <= 1, `the tool ran ${runs} times`);
  for (const result of of('agent.tool_result'))
    if (/unknown/.test(result.output ?? '') === false) assert.equal(runs, 1, `a result without a run: ${result.output}`);
  return events;
}

/** Kills the server when the turn comes to the point, with others under way, and starts it again. */
async function killAt(server: ServerProcess, wire: Wire, kills: KillPoints, point: KillPoint): Promise<LogEntry[]> {
  const target = await newWork(wire);
  const others = await Promise.all([newWork(wire), newWork(wire)]);
  const killed = kills.killAt(point, target.marker, () => server.kill());
  const works = [...others.map((other) => charge(wire, other)), charge(wire, target)];
  await killed;
  await Promise.all(works.map((work) => work.answer));
  await server.start();
  const logs = await Promise.all(works.map((work) => check(wire, work, work.id === target.id)));
  return logs.at(-1) ?? [];
}

// Each kill waits for a start, which on a busy machine takes seconds.
test('a server killed at every boundary of a turn loses nothing and repeats nothing', { timeout: 300_000 }, async (context) => {
  const { server, wire } = await serve(context);
  const budget = await wire.put('/api/budget', { total_tokens_cap: 10_000_000 });
  assert.equal(budget.status, 200, budget.text);
  for (const point of boundaries) {
    const log = await killAt(server, wire, points, point);
    const result = log.find((event) => event.type === 'agent.tool_result');
    const last = log.findLast((event) => event.type === 'agent.message');
    assert.match(last?.text ?? '', /^charged/, `${point}: the turn went on to its end`);
    if (point === 'the tool has begun') assert.match(result?.output ?? '', /outcome is unknown/);
    if (point === 'the model was asked' || point === 'the model was asked again') assert.match(result?.output ?? '', /^charged/);
  }
  await killInPause(server, wire);
  const { body } = await wire.get('/api/budget');
  assert.deepEqual([body.budget.reserved_tokens, body.budget.reserved_micros], [0, 0], 'what dead turns reserved was given back');
});

/** Twice: while it waits for a person, and as soon as the person's answer lets the tool begin. */
async function killInPause(server: ServerProcess, wire: Wire): Promise<void> {
  const target = await newWork(wire, { permission_mode: 'interactive' });
  const paused = await wire.post(`/v1/sessions/${target.id}/messages`, { text: `charge ${target.marker}` });
  const request = paused.body.pending_input.request_id;
  await server.kill();
  await server.start();
  const session = await wire.get(`/v1/sessions/${target.id}`);
  assert.equal(session.body.pending_input.request_id, request, 'a pending approval survives');
  assert.equal(points.runs.get(target.marker), undefined, 'and nothing ran without it');
  const killed = points.killAt('the tool has begun', target.marker, () => server.kill());
  const path = `/v1/sessions/${target.id}/inputs/${request}`;
  const answer = wire.put(path, { decision: 'approve_once' }).catch(() => undefined);
  await killed;
  await answer;
  await server.start();
  await check(wire, { ...target, answer }, true);
  const again = await wire.put(path, { decision: 'approve_once' });
  assert.equal(again.status, 200, 'the same answer again, after all that');
  assert.equal(again.body.session.pending_input, null);
  assert.equal(points.runs.get(target.marker), 1);
}
