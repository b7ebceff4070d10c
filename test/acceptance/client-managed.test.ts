// The client's managed sessions, against a running server: a log that is followed across every kind of break.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { AuthenticationError, type ManagedEvent, NotFoundError, ParleyClient } from '../../client/src/index.ts';
import { startApp } from '../support/app.ts';
import { startBreakingProxy } from '../support/breaking-proxy.ts';
import { startServer } from '../support/server-process.ts';

const app = await startApp({ after });
const baseUrl = await app.listen();
const backend = new ParleyClient({ baseUrl, apiKey: app.apiKey, agent: 'demo/assistant' });

test('a browser with a session token creates, sends, uploads, follows and reads', async () => {
  const sessionToken = async () => (await backend.mintSessionToken({ end_user_id: 'ann' })).token;
  const { managed } = new ParleyClient({ baseUrl, sessionToken, agent: 'demo/assistant' });
  const { id } = await managed.create();
  assert.deepEqual(await managed.upload(id, 'notes.txt', 'remember the milk'), { accepted: true, path: 'uploads/notes.txt' });
  assert.deepEqual(await managed.send(id, '/tool files {"operation":"read","path":"uploads/notes.txt"}'), { accepted: true });
  const events = await collect(managed.events(id, { until: 'idle' }));
  assert.deepEqual(
    events.map(({ type }) => type),
    ['user.message', 'session.status_running', 'agent.tool_use', 'agent.tool_result', 'agent.message', 'session.status_idle'],
  );
  const [message, , , result] = events;
  assert.ok(message?.type === 'user.message' && result?.type === 'agent.tool_result');
  assert.deepEqual(message.files, ['uploads/notes.txt']);
  assert.match(result.output, /remember the milk/);
  assert.equal((await managed.get(id)).events.length, 6);
  assert.equal((await managed.transcript(id)).messages.length, 2);
  assert.ok((await managed.list()).data.some((session) => session.id === id));
  await assert.rejects(new ParleyClient({ baseUrl, sessionToken }).sessions.create(), AuthenticationError);
});

test('text comes as deltas that add up to the message', async () => {
  const { managed } = backend;
  const { id } = await managed.create();
  await managed.send(id, '/say first');
  let draft = '';
  let whole = '';
  for await (const event of managed.events(id, { deltas: true })) {
    if (event.type === 'agent.message_delta') draft += event.text;
    if (event.type === 'agent.message') whole = event.text;
    if (event.type !== 'session.status_idle') continue;
    // Only now is it certain that somebody watches when the text begins.
    if (whole !== 'first') break;
    draft = '';
    await managed.send(id, '/delay 5\n/say one two three four');
  }
  assert.equal(whole, 'one two three four');
  assert.equal(draft, whole);
});

test('an approval is answered, and a turn is stopped', async () => {
  const { managed } = backend;
  const { id } = await managed.create();
  await managed.send(id, '/tool bash {"command":"echo yes"}');
  const asked = (await collect(managed.events(id, { until: 'idle' }))).at(-1);
  assert.ok(asked?.type === 'session.status_idle' && asked.stop_reason === 'requires_action');
  await managed.confirm(id, asked.request_id, 'approve_session');
  const rest = await collect(managed.events(id, { after: asked.seq, until: 'idle' }));
  assert.equal(rest[0]?.type, 'user.tool_confirmation');
  await managed.send(id, '/delay 1000\n/words 60');
  let stopped: ManagedEvent | undefined;
  for await (const event of managed.events(id, { after: seqOf(rest.at(-1)), until: 'idle' })) {
    if (event.type === 'session.status_running') await managed.interrupt(id);
    stopped = event;
  }
  assert.ok(stopped?.type === 'session.status_idle' && stopped.stop_reason === 'interrupted');
});

test('a log is followed across cut connections: every entry once, in order', async () => {
  const cuts = [10, 150, 400, 700, 1_000, 1_500];
  const streams: string[] = [];
  const proxy = await startBreakingProxy(baseUrl, ({ path }) => {
    if (!path.includes('/events/stream')) return undefined;
    const cutAfterBytes = cuts[streams.push(path) - 1];
    return cutAfterBytes === undefined ? undefined : { cutAfterBytes };
  });
  after(proxy.close);
  const { managed } = new ParleyClient({ baseUrl: proxy.origin, apiKey: app.apiKey, agent: 'demo/assistant' });
  const { id } = await managed.create();
  for (let turn = 1; turn <= 4; turn += 1) await managed.send(id, `/say ${turn}`);
  const seqs: number[] = [];
  const connection: string[] = [];
  for await (const event of managed.events(id, { onConnection: (state) => connection.push(state) })) {
    seqs.push(event.seq);
    if (event.type === 'session.status_idle' && seqs.length === 16) break;
  }
  assert.deepEqual(
    seqs,
    Array.from({ length: 16 }, (_, index) => index + 1),
  );
  assert.ok(streams.length > 3);
  assert.deepEqual(connection.slice(0, 2), ['lost', 'open']);
});

test('deltas add up across cut connections too', async () => {
  let streams = 0;
  const proxy = await startBreakingProxy(baseUrl, ({ path }) => {
    if (!path.includes('/events/stream')) return undefined;
    streams += 1;
    return streams > 3 ? undefined : { cutAfterBytes: 1_000 + 300 * streams };
  });
  after(proxy.close);
  const { managed } = new ParleyClient({ baseUrl: proxy.origin, apiKey: app.apiKey, agent: 'demo/assistant' });
  const { id } = await managed.create();
  await managed.send(id, '/delay 15\n/words 80');
  let draft = '';
  let whole = '';
  for await (const event of managed.events(id, { deltas: true, until: 'idle' })) {
    if (event.type === 'agent.message_delta') draft += event.text;
    if (event.type === 'agent.message') whole = event.text;
  }
  assert.ok(streams > 2);
  assert.equal(whole.split(' ').length, 80);
  assert.equal(whole.startsWith(draft), true);
  assert.ok(draft.length > 0);
});

test('a log is followed across a kill of the server', async (context) => {
  const server = await startServer({ after: (work) => context.after(work) }, { settings: { PARLEY_LEASE_MS: '1000' } });
  const { managed } = new ParleyClient({ baseUrl: server.url, apiKey: server.apiKey, agent: 'demo/assistant' });
  const { id } = await managed.create();
  await managed.send(id, '/delay 50\n/words 30');
  let restarted: Promise<void> | undefined;
  const seen: ManagedEvent[] = [];
  for await (const event of managed.events(id, { deltas: true, until: 'idle' })) {
    if (event.type === 'agent.message_delta') restarted ??= server.kill().then(() => server.start());
    else seen.push(event);
  }
  await restarted;
  assert.deepEqual(seen, (await managed.get(id)).events);
  assert.deepEqual(
    seen.map(({ type }) => type),
    ['user.message', 'session.status_running', 'agent.message', 'session.status_idle'],
  );
});

test('a token that was refused is renewed once; one that stays refused is an error', async () => {
  let asked = 0;
  const sessionToken = async () => {
    asked += 1;
    return asked === 1 ? 'not.a.token' : (await backend.mintSessionToken({ end_user_id: 'bob' })).token;
  };
  const { managed } = new ParleyClient({ baseUrl, sessionToken, agent: 'demo/assistant' });
  const { id } = await managed.create();
  await managed.get(id);
  assert.equal(asked, 2);
  const { managed: refused } = new ParleyClient({ baseUrl, sessionToken: () => 'not.a.token', agent: 'demo/assistant' });
  await assert.rejects(collect(refused.events(id)), AuthenticationError);
});

test("another end user's session does not exist, and following it ends with that", async () => {
  const { id } = await backend.managed.create({ metadata: { end_user_id: 'ann' } });
  const { token } = await backend.mintSessionToken({ end_user_id: 'eve' });
  const { managed } = new ParleyClient({ baseUrl, sessionToken: token, agent: 'demo/assistant' });
  await assert.rejects(collect(managed.events(id)), NotFoundError);
});

async function collect(events: AsyncIterable<ManagedEvent>): Promise<ManagedEvent[]> {
  const all: ManagedEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

function seqOf(event: ManagedEvent | undefined): number {
  return event !== undefined && 'seq' in event ? event.seq : 0;
}
