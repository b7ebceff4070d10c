// Submitting events, and what is refused on both routes.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createAgent } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { message, startGateway } from '../../support/gateway.ts';

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
    await submit(org, { session_id: theirs, hops: [] }),
    await submit(org, { session_id: theirs, hops: 'https://there.example.com' }),
    await deliver(org, { session_id: theirs, event: { hops: [] } }),
    await deliver(org, { session_id: theirs, recipient_gateway_url: 7 }),
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
  const refused = await deliver(org, { recipient_id: 'helper', event: message('hi', { metadata: tooMany }) });
  assert.equal(refused.body.detail, 'event.metadata: at most 50 keys', 'names the field where it is');
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
