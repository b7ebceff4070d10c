// Responses that were given, asked for again: fetched, streamed from any event on, deleted, or never kept.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { dropEmptied } from '../../src/session/deleted-responses.ts';
import { notFoundText, sessionCount } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';
import { connect, EventStream } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();

const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/responses`;

test('a fetched response is the response that was given, also with what the request said', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { input: 'one', model: 'm', metadata: { colour: 'red' } });
  const second = await tenant.post(pathOf(tenant), { input: 'two', previous_response_id: first.body.id });
  assert.deepEqual([first.body.model, first.body.metadata, second.body.metadata], ['m', { colour: 'red' }, {}]);
  for (const given of [first, second]) {
    const fetched = await tenant.get(`${pathOf(tenant)}/${given.body.id}`);
    assert.equal(fetched.text, given.text);
    assert.equal(fetched.headers.get('x-svc-session'), given.headers.get('x-svc-session'));
  }
});

test('a stream is read again from any number on, with the same events', async () => {
  const tenant = await createTenant(url);
  const text = 'Two  words,\nthen 日本語, an emoji 🙂 and something_very_long_without_any_space_in_it_that_goes_on_and_on_and_on.';
  const answer = await tenant.post(pathOf(tenant), { stream: true, input: `/say ${text.replaceAll('\n', ' ')}` });
  const whole = answer.text.split('\n\n').filter((frame) => frame !== '');
  const numbers = whole.map((frame) => JSON.parse(frame.split('data: ')[1] ?? '').sequence_number);
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => index),
  );
  const id = /resp_[0-9A-Z]+/.exec(answer.text)?.[0];
  const replay = await tenant.get(`${pathOf(tenant)}/${id}?stream=true`);
  assert.equal(replay.text, answer.text);
  const restAfter = async (after: number) => (await tenant.get(`${pathOf(tenant)}/${id}?stream=true&starting_after=${after}`)).text;
  for (const after of [0, 3, 7, numbers.length - 2]) {
    const rest = whole.slice(after + 1).map((frame) => `${frame}\n\n`);
    assert.equal(await restAfter(after), rest.join(''));
  }
  for (const after of [numbers.length - 1, numbers.length])
    assert.equal(await restAfter(after), `${whole.at(-1)}\n\n`, 'who has as many may have been shown some that were given up, and no end');
  assert.equal((await tenant.get(`${pathOf(tenant)}/${id}?stream=true&starting_after=x`)).status, 422);
});

test('a broken stream is resumed while the turn runs, without a gap and without a repetition', async () => {
  const tenant = await createTenant(url);
  const stream = await tenant.stream(pathOf(tenant), { stream: true, input: '/delay 15\n/words 30' });
  const seen = await stream.until('response.content_part.added');
  for (let count = 0; count < 5; count += 1) seen.push(await stream.next());
  await stream.leave();
  const id = seen[0]?.data.response.id;
  const running = await tenant.get(`${pathOf(tenant)}/${id}`);
  assert.deepEqual([running.body.status, running.body.usage], ['in_progress', null]);
  const waiting = await tenant.stream(pathOf(tenant), { stream: true, input: 'next', model: 'm', previous_response_id: id });
  const { response } = (await waiting.next())?.data ?? {};
  assert.equal((await tenant.get(`${pathOf(tenant)}/${response.id}`)).text, JSON.stringify(response), 'one that waits, too');
  await waiting.rest();
  const cursor = seen.at(-1)?.data.sequence_number;
  const resumed = await fetch(`${url}${pathOf(tenant)}/${id}?stream=true&starting_after=${cursor}`, {
    headers: { authorization: `Bearer ${tenant.key}` },
  });
  const frames = [...seen, ...(await new EventStream(resumed).rest())];
  assert.deepEqual(
    frames.map((frame) => frame.data.sequence_number),
    frames.map((_, index) => index),
  );
  const said = frames.filter((frame) => frame.event === 'response.output_text.delta').map((frame) => frame.data.delta);
  assert.equal(said.join(''), frames.at(-1)?.data.response.output_text);
  assert.equal(frames.at(-1)?.event, 'response.completed');
});

test('a deleted response is not there any more; the conversation goes on, until nothing else is left of it', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { input: 'one' });
  const second = await tenant.post(pathOf(tenant), { input: 'two', previous_response_id: first.body.id });
  const gone = await tenant.delete(`${pathOf(tenant)}/${first.body.id}`);
  assert.deepEqual([gone.status, gone.text], [200, `{"id":"${first.body.id}","object":"response","deleted":true}`]);
  assert.equal(gone.headers.get('x-svc-session'), first.headers.get('x-svc-session'));
  for (const answer of [
    await tenant.get(`${pathOf(tenant)}/${first.body.id}`),
    await tenant.delete(`${pathOf(tenant)}/${first.body.id}`),
    await tenant.post(pathOf(tenant), { input: 'x', previous_response_id: first.body.id }),
  ])
    assert.deepEqual([answer.status, answer.text], [404, notFoundText]);
  assert.equal((await tenant.get(`${pathOf(tenant)}/${second.body.id}`)).status, 200);
  assert.equal(await sessionCount(tenant), 1);
  await tenant.delete(`${pathOf(tenant)}/${second.body.id}`);
  assert.equal(await sessionCount(tenant), 0, 'nothing of it is kept');
});

test('a repeated request gets its answer again, also when the response that it continued was deleted since', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { input: 'one' });
  const [withKey, other] = [{ 'idempotency-key': 'again' }, { 'idempotency-key': 'other' }];
  const repeated = { input: 'two', previous_response_id: first.body.id };
  const referring = {
    input: [
      { type: 'item_reference', id: first.body.output[0].id },
      { role: 'user', content: 'three' },
    ],
  };
  const second = await tenant.post(pathOf(tenant), repeated, withKey);
  const third = await tenant.post(pathOf(tenant), referring, { 'x-stainless-retry-count': '0' });
  await tenant.delete(`${pathOf(tenant)}/${first.body.id}`);
  const again = await tenant.post(pathOf(tenant), repeated, withKey);
  assert.deepEqual([again.status, again.text, again.headers.get('idempotent-replayed')], [200, second.text, 'true']);
  const retried = await tenant.post(pathOf(tenant), referring, { 'x-stainless-retry-count': '1' });
  assert.deepEqual([retried.status, retried.text], [200, third.text]);
  for (const [body, headers] of [
    [repeated, other],
    [{ ...repeated, input: 'four' }, withKey],
  ] as const)
    assert.equal((await tenant.post(pathOf(tenant), body, headers)).status, 404, 'another request');
  await tenant.delete(`${pathOf(tenant)}/${second.body.id}`);
  assert.equal((await tenant.post(pathOf(tenant), repeated, withKey)).status, 404, 'its own response is deleted too');
});

test('a deleted response whose request is repeated is still none to continue from', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { input: 'one' });
  const send = () => tenant.post(pathOf(tenant), { input: 'two', previous_response_id: first.body.id }, { 'idempotency-key': 'again' });
  const { id } = (await send()).body;
  await tenant.delete(`${pathOf(tenant)}/${id}`);
  assert.equal((await send()).body.id, id);
  assert.equal((await tenant.post(pathOf(tenant), { input: 'three', previous_response_id: id })).status, 404);
});

test('responses that are deleted at the same moment leave nothing behind', async () => {
  const tenant = await createTenant(url);
  for (let round = 0; round < 10; round += 1) {
    const first = await tenant.post(pathOf(tenant), { input: '/say one' });
    const second = await tenant.post(pathOf(tenant), { input: '/say two', previous_response_id: first.body.id });
    const answers = await Promise.all([first, second].map(({ body }) => tenant.delete(`${pathOf(tenant)}/${body.id}`)));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
  }
  assert.equal(await sessionCount(tenant), 0);
});

test('a response that is deleted while its turn runs leaves nothing behind once that has ended', async () => {
  const tenant = await createTenant(url);
  const begin = async () => {
    const stream = await tenant.stream(pathOf(tenant), { stream: true, input: '/delay 20\n/words 8' });
    const { id } = (await stream.next())?.data.response ?? {};
    assert.equal((await tenant.delete(`${pathOf(tenant)}/${id}`)).status, 200);
    return stream;
  };
  const [alone, followed] = [await begin(), await begin()];
  const session = followed.response.headers.get('x-svc-session') ?? '';
  const next = await tenant.post(pathOf(tenant), { input: '/say I stay', conversation: session });
  assert.equal((await alone.rest()).at(-1)?.event, 'response.completed');
  await followed.rest();
  await dropEmptied(app.context.database.db, app.context.feed);
  assert.deepEqual([await sessionCount(tenant), next.body.output_text], [1, 'I stay']);
  await tenant.delete(`${pathOf(tenant)}/${next.body.id}`);
  assert.equal(await sessionCount(tenant), 0);
});

test('store: false drops the session after the turn, unary and streamed', async () => {
  const tenant = await createTenant(url);
  for (const stream of [false, true]) {
    const answer = await tenant.post(pathOf(tenant), { input: '/say gone', store: false, stream });
    const id = /resp_[0-9A-Z]+/.exec(answer.text)?.[0];
    for (const missing of [
      await tenant.get(`${pathOf(tenant)}/${id}`),
      await tenant.post(pathOf(tenant), { input: 'again', previous_response_id: id }),
    ])
      assert.deepEqual([missing.status, missing.text], [404, notFoundText]);
  }
  assert.equal(await sessionCount(tenant), 0);
});

test('a session that cannot be dropped when its turn ends keeps no answer from its client, on either adapter', async (t) => {
  const tenant = await createTenant(url);
  const away = () => {
    throw Object.assign(new Error('terminating connection'), { code: '57P01' });
  };
  t.mock.method(app.context.database.db, 'transaction', away);
  for (const stream of [false, true]) {
    const response = await tenant.post(pathOf(tenant), { input: '/say told', store: false, stream });
    const messages = [{ role: 'user', content: '/say told' }];
    const completion = await tenant.post(`${tenant.agentPath}/v1/chat/completions`, { messages, store: false, stream });
    for (const { status, text } of [response, completion]) {
      assert.equal(status, 200, text);
      assert.match(text, /told/);
    }
  }
});

test('the files that only a dropped session had go with it, and those of its end user stay', async () => {
  const tenant = await createTenant(url, { permissions: { mode: 'autonomous' } });
  const write = '/tool files {"operation":"write","path":"note.txt","content":"private"}';
  for (const metadata of [{}, { end_user_id: 'ada' }]) {
    const answer = await tenant.post(pathOf(tenant), { input: write, store: false, metadata });
    assert.match(answer.body.output_text, /Wrote 7 bytes/);
  }
  const { db } = app.context.database;
  const files = db.selectFrom('workspace_files').select(['instance_key', 'path']).where('org_id', '=', tenant.orgId);
  assert.deepEqual(await files.execute(), [{ instance_key: 'end_user:ada', path: 'note.txt' }]);
  const spent = db.selectFrom('instance_spend').select('instance_key').where('org_id', '=', tenant.orgId);
  assert.deepEqual(await spent.execute(), [{ instance_key: 'end_user:ada' }]);
});

test('an unstored session in which another call waits is dropped after that one, and nothing stays reserved', async () => {
  const tenant = await createTenant(url);
  await tenant.put('/api/budget', { total_tokens_cap: 1_000_000 });
  const first = await tenant.stream(pathOf(tenant), { input: '/delay 100\n/words 8', store: false, stream: true });
  const response = (await first.next())?.data.response;
  const second = await tenant.post(pathOf(tenant), { input: '/say I waited', previous_response_id: response.id });
  assert.deepEqual([second.status, second.body.output_text], [200, 'I waited']);
  await first.leave();
  await until(async () => (await sessionCount(tenant)) === 0);
  assert.equal((await tenant.get('/api/budget')).body.budget.reserved_tokens, 0);
});

test('a request that goes on from a session that is gone is 404 once its answer is kept no longer: it opens no other', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.stream(pathOf(tenant), { input: '/delay 100\n/words 8', store: false, stream: true });
  const body = { input: '/say I waited', previous_response_id: (await first.next())?.data.response.id };
  const goOn = () => tenant.post(pathOf(tenant), body, { 'idempotency-key': 'day' });
  assert.equal((await goOn()).status, 200);
  await first.leave();
  await until(async () => (await sessionCount(tenant)) === 0);
  assert.equal((await goOn()).headers.get('idempotent-replayed'), 'true');
  const { db } = app.context.database;
  await sql`update idempotency_keys set created_at = now() - interval '25 hours' where org_id = ${tenant.orgId}`.execute(db);
  assert.deepEqual([(await goOn()).status, await sessionCount(tenant)], [404, 0]);
});

test('store: false under an Idempotency-Key runs once, and a repetition gets the same answer, streamed and failed ones too', async () => {
  const tenant = await createTenant(url, { tools: ['bash'], permissions: { mode: 'autonomous' } });
  const bodies = [
    { input: '/say once', store: false, metadata: { colour: 'red' } },
    { input: '/tool bash {"command":"echo private"}\n/say once', store: false },
    { input: '/say several words of it', store: false, stream: true },
    { input: '/fail unauthorized', store: false },
    { input: '/fail unauthorized', store: false, stream: true },
  ];
  for (const [index, body] of bodies.entries()) {
    const send = (input = body.input) => tenant.post(pathOf(tenant), { ...body, input }, { 'idempotency-key': `unstored ${index}` });
    const first = await send();
    assert.equal(await sessionCount(tenant), 0);
    const again = await send();
    assert.deepEqual([again.status, again.text], [first.status, first.text]);
    assert.equal(again.headers.get('x-svc-session'), first.headers.get('x-svc-session'));
    assert.deepEqual(
      [first, again].map(({ headers }) => headers.get('idempotent-replayed')),
      [null, 'true'],
    );
    assert.equal((await send('/say something else')).status, 422);
  }
  const { database, secrets } = app.context;
  const kept = await database.db.selectFrom('idempotency_keys').select(['key', 'response']).where('org_id', '=', tenant.orgId).execute();
  assert.equal(kept.length, bodies.length);
  for (const { key, response } of kept) {
    assert.ok(response?.startsWith('v1.'), 'sealed');
    const { events } = JSON.parse(secrets.open(response ?? '', `org ${tenant.orgId} idempotency ${key}`));
    const types = events.map((event: { type: string }) => event.type);
    assert.ok(types.includes('turn-started') && !types.includes('message-received') && !types.includes('tool-finished'), `${types}`);
  }

  const twice = () => tenant.post(pathOf(tenant), { input: '/delay 5\n/words 9', store: false }, { 'idempotency-key': 'at once' });
  const [one, other] = await Promise.all([twice(), twice()]);
  assert.deepEqual([one.status, one.text], [200, other.text]);
  assert.equal(await sessionCount(tenant), 0);
});

test('a session that another surface made outlives its responses', async () => {
  const tenant = await createTenant(url);
  const session = await tenant.session();
  const only = await tenant.post(pathOf(tenant), { input: 'Hello', conversation: session });
  assert.equal((await tenant.delete(`${pathOf(tenant)}/${only.body.id}`)).status, 200);
  assert.equal((await tenant.get(`${pathOf(tenant)}/${only.body.id}`)).status, 404);
  assert.equal((await tenant.get(`/v1/sessions/${session}`)).body.status, 'active');
});

test('only those who may see a response may fetch or delete it', async () => {
  const tenant = await createTenant(url);
  const minted = async (endUserId: string) =>
    connect(url, (await tenant.post('/api/agents/helper/session_tokens', { end_user_id: endUserId })).body.token);
  const ann = await minted('ann');
  const bob = await minted('bob');
  const { id } = (await ann.post(pathOf(tenant), { input: 'hi' })).body;
  for (const answer of [
    await bob.get(`${pathOf(tenant)}/${id}`),
    await bob.get(`${pathOf(tenant)}/${id}?stream=true`),
    await bob.delete(`${pathOf(tenant)}/${id}`),
  ])
    assert.deepEqual([answer.status, answer.text], [404, notFoundText]);
  assert.equal((await ann.get(`${pathOf(tenant)}/${id}`)).status, 200);
});
