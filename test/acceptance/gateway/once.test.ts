// An event that is sent again: by its id, under an Idempotency-Key, by a client library, after a refusal and after a crash.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { overloaded, ServiceError } from '../../../src/errors.ts';
import { message, startGateway } from '../../support/gateway.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const { parley, newOrganization, submit, deliver, logOf, sessionOf } = await startGateway({ after });

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
    .where('key', 'in', ['k1', 'k2', 'gateway\nevent-1'])
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

test('no Idempotency-Key of the backend is in the way of an event, nor is its answer taken for the reply', async (t) => {
  const org = await newOrganization();
  const elsewhere = await startReceiver(t);
  const { id: own } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const eve = { sender_id: 'eve', sender_type: 'ai', event_type: 'joined', sender_gateway_url: new URL(elsewhere.url).origin };
  await submit(org, { ...eve, session_id: id });
  const headers = { 'idempotency-key': 'gateway evt_same' };
  await parley.call('POST', `/v1/sessions/${own}/messages`, { key: org.key, body: { text: '/say for me only' }, headers });
  const answer = await submit(org, message('/say for all', { id: 'evt_same', session_id: id }));
  assert.equal(answer.status, 200, answer.text);
  const heard = await elsewhere.until((received) => received.length === 2);
  assert.deepEqual(
    heard.map(({ body }) => body.event.message),
    ['/say for all', 'for all'],
  );
});

test('a delivery that is overtaken by its own repetition and refused meanwhile is still the same event when it is sent again', async (t) => {
  const org = await newOrganization();
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  await parley.call('POST', '/v1/gateway/events', { key: org.key, body: message('/say hi', { session_id: id }) });
  await logOf(org, id, 1);
  const { gateway, turns } = parley.context;
  assert.ok(gateway !== undefined);
  const [begun, adding, refused] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const delivers = gateway.deliver.bind(gateway);
  // The first looks the gateway of the sender up for longer than the second takes.
  t.mock.method(
    gateway,
    'deliver',
    async (...args: Parameters<typeof delivers>) => {
      begun.resolve();
      await adding.promise;
      return delivers(...args);
    },
    { times: 1 },
  );
  const notes = turns.note.bind(turns);
  t.mock.method(
    turns,
    'note',
    async (...args: Parameters<typeof notes>) => {
      adding.resolve();
      await refused.promise;
      return notes(...args);
    },
    { times: 1 },
  );
  const body = { recipient_id: 'ada', session_id: id, event: message('only once', { sender_id: 'bob' }) };
  const bring = () => parley.call('POST', '/v1/gateway/deliveries', { key: org.key, body, headers: { 'idempotency-key': 'overtaken' } });
  const first = bring();
  await begun.promise;
  const second = bring();
  assert.equal((await first).status, 503);
  refused.resolve();
  assert.equal((await second).status, 200);
  assert.equal((await bring()).status, 200);
  const log = await logOf(org, id, 1);
  assert.equal(log.filter((event: { text?: string }) => event.text === 'only once').length, 1);
});

for (const [moment, name] of [
  ['has ended', 'id'],
  ['was only admitted', 'id'],
  ['has ended', 'Idempotency-Key'],
] as const) {
  test(`an event that is refused when the turn of its own repetition ${moment} leaves that turn as it is, known by its ${name}`, async (t) => {
    const org = await newOrganization();
    const { runner, turns, log } = parley.context;
    const [opened, ran, refused] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    // The process of the first has no room for the turn when it comes to that.
    t.mock.method(
      turns,
      'admit',
      async () => {
        opened.resolve();
        await ran.promise;
        throw overloaded();
      },
      { times: 1 },
    );
    const body = message('/say ran', name === 'id' ? { id: `refused when it ${moment}` } : {});
    const send = () => submit(org, body, name === 'id' ? {} : { 'idempotency-key': 'refused' });
    const first = send();
    await opened.promise;
    const apply = log.apply.bind(log);
    if (moment === 'was only admitted')
      t.mock.method(log, 'apply', async (operation: Parameters<typeof apply>[0]) => {
        const applied = await apply(operation);
        if (operation.kind === 'admit') {
          ran.resolve();
          await refused.promise;
        }
        return applied;
      });
    const second = send();
    if (moment === 'has ended') {
      await second;
      await runner.idle();
      ran.resolve();
    }
    assert.equal((await first).status, 503);
    refused.resolve();
    const { status, headers } = await second;
    assert.equal(status, 200);
    const sessionId = String(headers['x-svc-session']);
    const events = await logOf(org, sessionId, 1);
    assert.equal(events.filter((event: { type: string }) => event.type === 'user.message').length, 1);
    assert.deepEqual(
      (await sessionOf(org, sessionId)).participants.map(({ name }: { name: string }) => name),
      ['ada'],
    );
    assert.equal((await send()).headers['x-svc-session'], sessionId, 'sent again, it is the same event');
  });
}

test('an event without an id that is refused while its own repetition goes on does not leave the key free', async (t) => {
  const org = await newOrganization();
  const { turns } = parley.context;
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const [begun, ran] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  // The first comes to it while the session is stopped, the second when it has been resumed.
  t.mock.method(
    turns,
    'admit',
    async () => {
      begun.resolve();
      await ran.promise;
      throw new ServiceError('conflict', 'The session is stopped.');
    },
    { times: 1 },
  );
  const send = () => submit(org, message('/say once', { session_id: id }), { 'idempotency-key': 'refused first' });
  const first = send();
  await begun.promise;
  assert.equal((await send()).status, 200);
  ran.resolve();
  assert.equal((await first).status, 409);
  const again = await send();
  assert.deepEqual([again.status, again.headers['idempotent-replayed']], [200, 'true']);
  const log = await logOf(org, id, 1);
  assert.equal(log.filter((event: { type: string }) => event.type === 'user.message').length, 1);
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
