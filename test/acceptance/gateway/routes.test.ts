// Submitting and delivering events to participants here.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createAgent } from '../../support/accounts.ts';
import { type Answer, startApp } from '../../support/app.ts';
import { message, ownUrl, startGateway } from '../../support/gateway.ts';

const notFound = '{"detail":"Not Found"}';
const { parley, newOrganization, submit, deliver, logOf, sessionOf } = await startGateway({ after });

test('off by default: both routes are 404', async (t) => {
  const plain = await startApp(t);
  for (const path of ['/v1/gateway/events', '/v1/gateway/deliveries']) {
    const answer = await plain.call('POST', path, { key: plain.apiKey, body: message('hello') });
    assert.deepEqual([answer.status, answer.text], [404, notFound]);
  }
});

test('a submitted message runs a turn of the session’s agent, attributed to the sender', async () => {
  const org = await newOrganization();
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const answer = await submit(org, message('/say Hello, Ada.', { session_id: id }));
  assert.deepEqual([answer.status, answer.text], [200, '{"status":"ok"}']);
  assert.equal(answer.headers['x-svc-session'], id);
  const events = await logOf(org, id, 1);
  const said = events.find((event: { type: string }) => event.type === 'user.message');
  assert.deepEqual([said.text, said.participant_name, said.participant_type], ['/say Hello, Ada.', 'ada', 'human']);
  assert.equal(events.find((event: { type: string }) => event.type === 'agent.message').text, 'Hello, Ada.');
  assert.deepEqual((await sessionOf(org, id)).participants, [{ name: 'ada', type: 'human' }]);
});

test('without a session_id a session is created for the sender and the metadata', async () => {
  const org = await newOrganization();
  const answer = await submit(org, message('/say hi', { metadata: { topic: 'tea' } }));
  assert.equal(answer.status, 200);
  const session = await sessionOf(org, String(answer.headers['x-svc-session']));
  assert.deepEqual(session.metadata, { topic: 'tea' });
  assert.deepEqual(session.participants, [{ name: 'ada', type: 'human' }]);
  await logOf(org, session.id, 1);
});

test('metadata.agent_instance_id names the durable instance of a session that an event opens', async () => {
  const org = await newOrganization();
  await parley.call('POST', '/api/agents/helper/releases', {
    key: org.key,
    body: { permissions: { mode: 'autonomous' }, instance: { scope: 'session' }, activate: true },
  });
  const metadata = { agent_instance_id: 'employee-7' };
  const write = { operation: 'write', path: 'note.txt', content: 'tea at four' };
  const first = await submit(org, message(`/tool files ${JSON.stringify(write)}`, { metadata }));
  await logOf(org, String(first.headers['x-svc-session']), 1);
  const second = await submit(org, message('/tool files {"operation":"read","path":"note.txt"}', { metadata }));
  const log: { type: string; output?: string }[] = await logOf(org, String(second.headers['x-svc-session']), 1);
  assert.equal(log.find((event) => event.type === 'agent.tool_result')?.output, 'tea at four');
});

test('an event is acted on once, by its id or its Idempotency-Key', async () => {
  const org = await newOrganization();
  const body = message('/say once', { id: 'event-1' });
  const answers = await Promise.all([submit(org, body), submit(org, body), submit(org, body)]);
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [200, 200, 200],
  );
  const sessions = new Set(answers.map((answer) => answer.headers['x-svc-session']));
  assert.equal(sessions.size, 1);
  const events = await logOf(org, String([...sessions][0]), 1);
  assert.equal(events.filter((event: { type: string }) => event.type === 'user.message').length, 1);

  const keyed = { 'idempotency-key': 'k1' };
  const first = await submit(org, message('/say keyed'), keyed);
  const second = await submit(org, message('/say keyed'), keyed);
  assert.equal(second.headers['x-svc-session'], first.headers['x-svc-session']);
  assert.deepEqual([first.headers['idempotent-replayed'], second.headers['idempotent-replayed']], [undefined, 'true']);
  const atOnce = await Promise.all([1, 2, 3].map(() => submit(org, message('/say at once'), { 'idempotency-key': 'k3' })));
  assert.deepEqual(atOnce.map(({ headers }) => headers['idempotent-replayed'] ?? 'first').sort(), ['first', 'true', 'true']);
  const other = await submit(org, message('/say other'), keyed);
  assert.deepEqual([other.status, other.body.detail.error], [422, 'idempotency_key_reused']);
  await logOf(org, String(first.headers['x-svc-session']), 1);

  const brought = { recipient_id: 'ada', session_id: first.headers['x-svc-session'], event: message('hello', { sender_id: 'bob' }) };
  const bring = (body: unknown, key: string) =>
    parley.call('POST', '/v1/gateway/deliveries', { key: org.key, body, headers: { 'idempotency-key': key } });
  const deliveries = [await bring(brought, 'k2'), await bring(brought, 'k2')];
  assert.deepEqual(
    deliveries.map(({ status, headers }) => [status, headers['idempotent-replayed']]),
    [
      [200, undefined],
      [200, 'true'],
    ],
  );
  for (const key of ['k1', 'k2']) {
    const reused = await bring({ ...brought, event: message('goodbye', { sender_id: 'bob' }) }, key);
    assert.deepEqual([reused.status, reused.body.detail.error], [422, 'idempotency_key_reused']);
  }
  const different = ['one', 'two', 'three'].map((text) => ({
    ...brought,
    event: message(text, { id: `event-${text}`, sender_id: 'bob' }),
  }));
  const statuses = await Promise.all(different.map(async (body) => (await bring(body, 'k4')).status));
  assert.deepEqual(statuses.toSorted(), [200, 422, 422], 'also at the same moment');
  const log = await logOf(org, String(first.headers['x-svc-session']), 1);
  const said = (texts: string[]) => log.filter((event: { text?: string }) => texts.includes(event.text ?? '')).length;
  assert.deepEqual([said(['hello']), said(['one', 'two', 'three'])], [1, 1], 'what is refused is not done');

  const dayAgo = new Date(Date.now() - 24 * 3_600_000 - 1_000);
  await parley.context.database.db
    .updateTable('idempotency_keys')
    .set({ created_at: dayAgo })
    .where('key', 'in', ['k1', 'k2', 'gateway event-1'])
    .execute();
  assert.equal((await submit(org, body)).status, 200);
  const still = await logOf(org, String([...sessions][0]), 1);
  assert.deepEqual(still, events, 'an event is not forgotten with its key');
  const nextDay = await submit(org, message('/say keyed'), keyed);
  assert.notEqual(nextDay.headers['x-svc-session'], first.headers['x-svc-session'], 'a key is kept for 24 hours');
  assert.deepEqual([nextDay.status, nextDay.headers['idempotent-replayed']], [200, undefined]);
  assert.equal((await bring({ ...brought, event: message('goodbye', { sender_id: 'bob' }) }, 'k2')).status, 200);
  const later = await logOf(org, String(first.headers['x-svc-session']), 1);
  assert.equal(later.at(-1).text, 'goodbye');
});

test("a client library's own retry of an event without an id or a key is the same event", async () => {
  const org = await newOrganization();
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  for (const body of [message('/say once'), message('/say once', { session_id: id })]) {
    const attempt = (count: string) => submit(org, body, { 'x-stainless-retry-count': count });
    const first = await attempt('0');
    const sessionId = String(first.headers['x-svc-session']);
    for (const count of ['1', '2']) {
      const retried = await attempt(count);
      assert.deepEqual([retried.status, retried.text, retried.headers['x-svc-session']], [200, '{"status":"ok"}', sessionId]);
    }
    const log = await logOf(org, sessionId, 1);
    assert.equal(log.filter((event: { type: string }) => event.type === 'user.message').length, 1);
  }
  await submit(org, message('/say once', { session_id: id }), { 'x-stainless-retry-count': '0' });
  const log = await logOf(org, id, 2);
  assert.equal(
    log.filter((event: { type: string }) => event.type === 'user.message').length,
    2,
    'no retry: the same words are a new event',
  );
});

test('an event that is refused leaves no session and no participant behind, and may be sent again', async () => {
  const org = await newOrganization();
  const stopped = (await submit(org, message('/say hello'))).headers['x-svc-session'] as string;
  await logOf(org, stopped, 1);
  const before = await sessionOf(org, stopped);
  const total = async () => (await parley.call('GET', `/${org.slug}/helper/v1/sessions`, { key: org.key })).body.total;
  const cap = (tokens: number | null) => parley.call('PUT', '/api/budget', { key: org.key, body: { total_tokens_cap: tokens } });
  await cap(0);
  const late = message('/say hello', { id: 'evt_refused', sender_id: 'late' });
  for (const body of [late, { ...late, session_id: stopped }]) assert.equal((await submit(org, body)).status, 402);
  assert.equal(
    (await submit(org, { sender_id: 'eve', sender_type: 'ai', event_type: 'joined' })).status,
    200,
    'what runs no turn costs nothing',
  );
  await cap(null);
  await parley.call('DELETE', `/${org.slug}/helper/v1/sessions/${stopped}`, { key: org.key });
  assert.equal((await submit(org, { ...late, session_id: stopped })).body.detail.error, 'session_stopped');
  assert.deepEqual((await sessionOf(org, stopped)).participants, before.participants);
  assert.equal(await total(), 2, 'the first one and that of the event without a message');
  const again = (await submit(org, late)).headers['x-svc-session'] as string;
  await logOf(org, again, 1);
  assert.deepEqual((await sessionOf(org, again)).participants, [{ name: 'late', type: 'human' }]);
});

test('a delivery is an entry in the log of the recipient’s newest session that no turn answers', async () => {
  const org = await newOrganization();
  const older = (await parley.call('POST', '/v1/sessions', { key: org.key })).body.id;
  await submit(org, message('/say one', { session_id: older }));
  const newer = (await parley.call('POST', '/v1/sessions', { key: org.key })).body.id;
  await submit(org, message('/say two', { session_id: newer }));
  await logOf(org, newer, 1);
  const event = { id: 'd-1', sender_id: 'scout', sender_type: 'ai', event_type: 'message', message: 'Found it.' };
  for (let count = 0; count < 2; count += 1) {
    const answer = await deliver(org, { recipient_id: 'ada', event });
    assert.deepEqual([answer.status, answer.text], [200, '{"status":"ok"}']);
  }
  const events = await logOf(org, newer, 1);
  const noted = events.filter((entry: { participant_name?: string }) => entry.participant_name === 'scout');
  assert.deepEqual(
    noted.map((entry: Record<string, unknown>) => [entry.type, entry.text, entry.participant_type]),
    [['user.message', 'Found it.', 'ai']],
  );
  assert.equal(events.at(-1).text, 'Found it.');
  const ids = events.flatMap((entry: { message_id?: string }) => entry.message_id ?? []);
  assert.deepEqual(ids.toSorted(), ids, 'ids sort by time, also of what was brought');
  assert.match(ids.at(-1), /^msg_[0-9A-HJKMNP-TV-Z]{26}$/);
  assert.equal((await sessionOf(org, newer)).participants.length, 2);

  const toOlder = { recipient_id: 'helper', session_id: older, recipient_gateway_url: `${ownUrl}/`, event: { ...event, id: 'd-2' } };
  assert.equal((await deliver(org, toOlder)).status, 200);
  assert.equal((await logOf(org, older, 1)).at(-1).participant_name, 'scout');

  const newest = (await parley.call('POST', '/v1/sessions', { key: org.key })).body.id;
  await submit(org, message('/say three', { session_id: newest }));
  await logOf(org, newest, 1);
  for (const recipient of ['ada', 'helper']) assert.equal((await deliver(org, { recipient_id: recipient, event })).status, 200);
  assert.equal((await sessionOf(org, newest)).participants.length, 1, 'what was delivered stays where it is, though another is newer');
});

test('an unknown recipient or session is 404, also when it is another org’s or a deleted agent’s, and before a bad body is 422', async () => {
  const org = await newOrganization();
  const other = await newOrganization();
  const theirs = (await parley.call('POST', '/v1/sessions', { key: other.key })).body.id;
  await submit(other, message('/say hi', { session_id: theirs }));
  const event = message('hello');
  const answers = [
    await submit(org, message('hello', { session_id: 'ses_unknown' })),
    await submit(org, message('hello', { session_id: theirs })),
    await submit(org, message('hello', { session_id: 'x'.repeat(300) })),
    await deliver(org, { recipient_id: 'nobody', event }),
    await deliver(org, { recipient_id: 'ada', event }),
    await deliver(org, { recipient_id: 'helper', event }),
    await deliver(org, { recipient_id: 'helper', session_id: theirs, event }),
    await submit(org, { session_id: theirs }),
    await deliver(org, { session_id: theirs }),
  ];
  await createAgent(parley, org.key, 'former');
  const former = (await parley.call('POST', `/${org.slug}/former/v1/sessions`, { key: org.key })).body.id;
  const joined = { sender_id: 'zoe', sender_type: 'ai', event_type: 'joined', session_id: former };
  assert.equal((await submit(org, joined)).status, 200);
  await parley.call('DELETE', '/api/agents/former', { key: org.key });
  const hops = ['https://there.example.com'];
  const own = (await parley.call('POST', '/v1/sessions', { key: org.key })).body.id;
  answers.push(
    await deliver(org, { recipient_id: 'nobody', session_id: own, event }),
    await submit(org, { ...joined, hops }),
    await deliver(org, { recipient_id: 'zoe', event }),
    await deliver(org, { recipient_id: 'helper', session_id: former, event: { ...event, hops } }),
  );
  for (const answer of answers) assert.deepEqual([answer.status, answer.text], [404, notFound]);
  await logOf(other, theirs, 1);
});

test('no key, a bad body: 401, 422', async () => {
  const org = await newOrganization();
  for (const path of ['/v1/gateway/events', '/v1/gateway/deliveries']) {
    const answer = await parley.call('POST', path, { body: message('hi') });
    assert.deepEqual([answer.status, answer.text], [401, '{"detail":"Unauthorized"}']);
  }
  const tooMany = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, 1]));
  const bad = [
    {},
    { sender_id: 'ada', sender_type: 'human' },
    message('hi', { sender_type: 'robot' }),
    message('hi', { sender_id: '' }),
    message('hi', { sender_id: 'x'.repeat(257) }),
    message('hi', { event_type: 'x'.repeat(101) }),
    message('hi', { id: 'x'.repeat(201) }),
    message('hi', { metadata: tooMany }),
    message('hi', { metadata: [] }),
    message('hi', { session_id: 7 }),
    message('hi', { hops: Array.from({ length: 9 }, (_, index) => `https://g${index}.example.com`) }),
    message('x'.repeat(200_001)),
    message('hi', { sender_gateway_url: 'not a url' }),
  ];
  for (const body of bad) {
    assert.equal((await submit(org, body)).status, 422, JSON.stringify(body).slice(0, 100));
    assert.equal((await deliver(org, { recipient_id: 'helper', event: body })).status, 422);
  }
  assert.equal((await deliver(org, { event: message('hi') })).status, 422);
  assert.equal((await deliver(org, { recipient_id: 'helper' })).status, 422);
  const list = await parley.call('GET', `/${org.slug}/helper/v1/sessions`, { key: org.key });
  assert.equal(list.body.total, 0);
});

test('an event without a message only makes its sender known', async () => {
  const org = await newOrganization();
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const joined = { sender_id: 'bob', sender_type: 'human', event_type: 'join', session_id: id };
  assert.equal((await submit(org, joined)).status, 200);
  assert.deepEqual((await sessionOf(org, id)).participants, [{ name: 'bob', type: 'human' }]);
  assert.equal((await deliver(org, { recipient_id: 'bob', event: message('hi bob') })).status, 200);
  const many = JSON.stringify(Array.from({ length: 99 }, (_, index) => ({ name: `p${index}`, type: 'human' })));
  await parley.context.database.db.updateTable('sessions').set({ participants: many }).where('id', '=', id).execute();
  for (const [sender_id, status] of [
    ['the hundredth', 200],
    ['one more', 409],
    ['p0', 200],
  ] as const) {
    assert.equal((await submit(org, { ...joined, sender_id })).status, status, sender_id);
    assert.equal((await deliver(org, { recipient_id: 'p0', session_id: id, event: message('hi', { sender_id }) })).status, status);
  }
  assert.equal((await sessionOf(org, id)).participants.length, 100);
});

test('a delivery whose process died is made by the next try, once it cannot be under way any more', async () => {
  const org = await newOrganization();
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const delivery = { recipient_id: 'helper', session_id: id, event: message('hi', { id: 'evt_died' }) };
  const die = async (secondsAgo: number) => {
    const at = new Date(Date.now() - 1_000 * secondsAgo);
    await sql`insert into gateway_events (org_id, event_id, target, session_id, event, created_at)
      values (${org.id}, 'evt_died', ${`session ${id}`}, ${id}, '{}', ${at})
      on conflict (org_id, event_id, target) do update set created_at = excluded.created_at`.execute(parley.context.database.db);
  };
  await die(5);
  const early = await deliver(org, delivery);
  assert.deepEqual([early.status, early.headers['retry-after']], [503, '1']);
  await die(15);
  for (let count = 0; count < 2; count += 1) assert.equal((await deliver(org, delivery)).status, 200);
  assert.equal((await logOf(org, id, 0)).length, 1);
  // As if it had died when the entry was written.
  await sql`update gateway_events set state = 'received' where org_id = ${org.id}`.execute(parley.context.database.db);
  assert.equal((await deliver(org, delivery)).status, 200);
  assert.equal((await logOf(org, id, 0)).length, 1);
});

test('a delivery in the middle of a turn is seen by the agent in its next one', async () => {
  const org = await newOrganization();
  await createAgent(parley, org.key, 'asking', { tools: ['bash'], permissions: { mode: 'interactive' } });
  const { id } = (await parley.call('POST', `/${org.slug}/asking/v1/sessions`, { key: org.key })).body;
  const asked = { text: '/tool bash {"command":"echo for ada"}', participant_name: 'ada', participant_type: 'human' };
  const { pending_input: pending } = (await parley.call('POST', `/v1/sessions/${id}/messages`, { key: org.key, body: asked })).body;
  const note = message('/say for bob', { sender_id: 'bob' });
  assert.equal((await deliver(org, { recipient_id: 'ada', session_id: id, event: note })).status, 200);
  const path = `/v1/sessions/${id}/inputs/${pending.request_id}`;
  const { events } = (await parley.call('PUT', path, { key: org.key, body: { decision: 'approve_once' } })).body;
  const texts = events.filter(({ type }: { type: string }) => type === 'text').map(({ data }: { data: Answer['body'] }) => data.part.text);
  assert.match(texts.join(''), /for ada/);
  assert.doesNotMatch(texts.join(''), /for bob/);
  const next = await parley.call('POST', `/v1/sessions/${id}/messages`, { key: org.key, body: { text: 'How many?' } });
  assert.match(next.body.text, /turn 2/, 'a delivery is no turn');
});
