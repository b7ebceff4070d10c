// Delivering events to participants here.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createAgent } from '../../support/accounts.ts';
import type { Answer } from '../../support/app.ts';
import { message, ownUrl, startGateway } from '../../support/gateway.ts';

const { parley, newOrganization, submit, deliver, logOf, sessionOf } = await startGateway({ after });

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

test('a delivery to a stopped session is 409 and leaves nothing behind; once it is resumed, the same one is taken', async () => {
  const org = await newOrganization();
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const bring = (event: string, more: object = {}) =>
    deliver(org, { recipient_id: 'helper', event: message(event, { id: event, sender_id: 'bob' }), session_id: id, ...more });
  assert.equal((await bring('before')).status, 200);
  await parley.call('DELETE', `/${org.slug}/helper/v1/sessions/${id}`, { key: org.key });
  const before = [await sessionOf(org, id), await logOf(org, id, 0)];
  const late = { event: message('late', { id: 'late', sender_id: 'late' }) };
  for (const refused of [await bring('late', late), await bring('late', { ...late, session_id: undefined })])
    assert.deepEqual([refused.status, refused.body.detail?.error], [409, 'session_stopped']);
  assert.equal((await bring('before')).status, 200, 'what was taken before is sent again');
  assert.deepEqual([await sessionOf(org, id), await logOf(org, id, 0)], before);
  await parley.call('POST', '/v1/sessions', { key: org.key, body: { session_id: id } });
  assert.equal((await bring('late', late)).status, 200);
  assert.equal((await logOf(org, id, 0)).at(-1).text, 'late');
});

test('a delivery that names no session goes to one that is open, though a stopped one is newer', async () => {
  const org = await newOrganization();
  const [open, stopped] = [await submit(org, message('/say one')), await submit(org, message('/say two'))].map(({ headers }) =>
    String(headers['x-svc-session']),
  );
  assert.ok(open !== undefined && stopped !== undefined);
  await logOf(org, open, 1);
  await logOf(org, stopped, 1);
  await parley.call('DELETE', `/${org.slug}/helper/v1/sessions/${stopped}`, { key: org.key });
  for (const recipient of ['ada', 'helper']) {
    const text = `for ${recipient}`;
    assert.equal((await deliver(org, { recipient_id: recipient, event: message(text, { sender_id: 'bob' }) })).status, 200);
    assert.equal((await logOf(org, open, 1)).at(-1).text, text);
  }
});

test('a delivery that failed at a session which was stopped since is refused once, and then goes to one that is open', async (t) => {
  const org = await newOrganization();
  const { id: stopped } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const body = { recipient_id: 'helper', event: message('late', { id: 'late', sender_id: 'bob' }) };
  const lost = async () => Promise.reject(new Error('Connection terminated unexpectedly'));
  t.mock.method(parley.context.turns, 'note', lost, { times: 1 });
  assert.equal((await deliver(org, body)).status, 503);
  await parley.call('DELETE', `/${org.slug}/helper/v1/sessions/${stopped}`, { key: org.key });
  const { id: open } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const { db } = parley.context.database;
  await sql`update gateway_events set created_at = now() - interval '11 seconds' where org_id = ${org.id}`.execute(db);
  assert.deepEqual([(await deliver(org, body)).status, (await deliver(org, body)).status], [409, 200]);
  assert.equal((await logOf(org, open, 0)).at(-1).text, 'late');
});

test('the session that a sender talks from is stored with the participant, up to 256 characters of an id', async () => {
  const org = await newOrganization();
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const bring = (theirs: string) => {
    const event = message('hi', { sender_id: 'bob', session_id: theirs, sender_gateway_url: 'https://there.example.com' });
    return deliver(org, { recipient_id: 'helper', session_id: id, event });
  };
  const refused = await bring('x'.repeat(257));
  assert.deepEqual([refused.status, refused.body.detail], [422, 'event.session_id: must not have more than 256 characters']);
  assert.deepEqual((await sessionOf(org, id)).participants, []);
  const longest = 'x'.repeat(256);
  assert.equal((await bring(longest)).status, 200);
  assert.equal((await sessionOf(org, id)).participants[0].gateway_session_id, longest);
});
