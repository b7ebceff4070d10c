// A human and two AI participants on two gateways, each a process of its own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apiKey } from '../../support/app.ts';
import { freePort } from '../../support/free-port.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';

type Body = ReturnType<typeof JSON.parse>;

async function call(server: ServerProcess, method: string, path: string, body?: unknown): Promise<Body> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${server.apiKey}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** What was said in a session: who, and what. */
async function said(server: ServerProcess, agent: string, sessionId: string): Promise<[string, string][]> {
  const { events } = await call(server, 'GET', `/demo/${agent}/v1/managed-agents/sessions/${sessionId}`);
  return events
    .filter((event: Body) => event.type === 'user.message' || event.type === 'agent.message')
    .map((event: Body) => [event.participant_name ?? agent, event.text]);
}

async function untilSaid(server: ServerProcess, agent: string, sessionId: string, expected: [string, string][]): Promise<void> {
  let entries: [string, string][] = [];
  await until(async () => {
    entries = await said(server, agent, sessionId);
    return entries.length >= expected.length;
  }, 30_000);
  // A delivery that is retried may come after a later one.
  assert.deepEqual(entries.toSorted(), expected.toSorted());
}

async function createAgent(server: ServerProcess, slug: string): Promise<string> {
  await call(server, 'POST', '/api/agents', { slug });
  await call(server, 'POST', `/api/agents/${slug}/releases`, { activate: true });
  return (await call(server, 'POST', `/demo/${slug}/v1/sessions`)).id;
}

test('a human and two agents talk across two gateways, also when one of them does not answer for a while', async (t) => {
  const ports = [await freePort(), await freePort()] as const;
  const start = (port: number, peerPort: number) =>
    startServer(t, {
      port,
      settings: {
        PARLEY_GATEWAY: '1',
        PARLEY_LEASE_MS: '500',
        PARLEY_PUBLIC_URL: `http://127.0.0.1:${port}`,
        PARLEY_GATEWAY_PEERS: JSON.stringify({ [`http://127.0.0.1:${peerPort}`]: apiKey }),
      },
    });
  const [harbour, hill] = await Promise.all([start(ports[0], ports[1]), start(ports[1], ports[0])]);
  const atHarbour = await createAgent(harbour, 'pilot');
  const atHill = await createAgent(hill, 'scout');
  const message = (sender_id: string, sender_type: string, text: string, session_id: string) => ({
    sender_id,
    sender_type,
    event_type: 'message',
    message: text,
    session_id,
  });

  // The scout speaks to the pilot from its own gateway, and hears the reply there.
  await call(harbour, 'POST', '/v1/gateway/events', {
    ...message('scout', 'ai', '/say Pilot here.', atHarbour),
    sender_gateway_url: hill.url,
  });
  await untilSaid(hill, 'scout', atHill, [['pilot', 'Pilot here.']]);

  // The human at the harbour is heard on the hill, and so is what the pilot answers.
  await call(harbour, 'POST', '/v1/gateway/events', message('ada', 'human', '/say Ada, I see fog.', atHarbour));
  const onTheHill: [string, string][] = [
    ['pilot', 'Pilot here.'],
    ['ada', '/say Ada, I see fog.'],
    ['pilot', 'Ada, I see fog.'],
  ];
  await untilSaid(hill, 'scout', atHill, onTheHill);

  // The scout's own turn, on the hill, is heard at the harbour, in the session that the pilot spoke from.
  await call(hill, 'POST', '/v1/gateway/events', message('guide', 'human', '/say The hill is clear.', atHill));
  const atTheHarbour: [string, string][] = [
    ['scout', '/say Pilot here.'],
    ['pilot', 'Pilot here.'],
    ['ada', '/say Ada, I see fog.'],
    ['pilot', 'Ada, I see fog.'],
    ['guide', '/say The hill is clear.'],
    ['scout', 'The hill is clear.'],
  ];
  await untilSaid(harbour, 'pilot', atHarbour, atTheHarbour);
  onTheHill.push(['guide', '/say The hill is clear.'], ['scout', 'The hill is clear.']);

  // What is said while the hill does not answer reaches it when it does, once, and nothing went in circles meanwhile.
  process.kill(hill.pid, 'SIGSTOP');
  await call(harbour, 'POST', '/v1/gateway/events', message('ada', 'human', '/say Set sail.', atHarbour));
  atTheHarbour.push(['ada', '/say Set sail.'], ['pilot', 'Set sail.']);
  await untilSaid(harbour, 'pilot', atHarbour, atTheHarbour);
  process.kill(hill.pid, 'SIGCONT');
  onTheHill.push(['ada', '/say Set sail.'], ['pilot', 'Set sail.']);
  await untilSaid(hill, 'scout', atHill, onTheHill);
  assert.deepEqual(await said(harbour, 'pilot', atHarbour), atTheHarbour);
});
