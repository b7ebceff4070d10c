import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type KyselyPlugin, sql } from 'kysely';
import type { Db } from '../../../src/database/database.ts';
import { migrate } from '../../../src/database/migrate.ts';
import { gatewayUrl } from '../../../src/gateway/event.ts';
import { isKnownParticipant, joinSession, newestSessionWith } from '../../../src/gateway/participants.ts';
import { deliverReply, markAdmitted } from '../../../src/gateway/replies.ts';
import { ReplyWorker } from '../../../src/gateway/reply-worker.ts';
import { forgetEvent, recordEvent, submitTarget } from '../../../src/gateway/seen.ts';
import { dropSession } from '../../../src/session/drop-sessions.ts';
import { startApp } from '../../support/app.ts';
import { until } from '../../support/until.ts';

const { context, request, operatorKey } = await startApp({ after });
const { database, directory } = context;
const orgId = 1;
// No agent is asked for: the directory has a connection of its own, and the embedded database only one.
const found = (db: Db, name: string) => newestSessionWith(db, { agentBySlug: async () => undefined }, orgId, name, 'evt_unknown');

const created = await request('POST', '/operator/organizations', { slug: 'other' }, { authorization: `Bearer ${operatorKey}` });
const otherOrgId: number = created.body.organization.id;

async function newSession(): Promise<string> {
  return JSON.parse((await request('POST', '/v1/sessions', {})).text).id;
}

test('the newest of a participant’s sessions is found without reading the others', async () => {
  const newest = await newSession();
  const columns = sql.raw('org_id, agent_id, release_version, surface, instance_key, current_agent');
  await sql`insert into sessions (id, created_at, ${columns})
    select 'copy-' || n, created_at - n * interval '1 second', ${columns} from sessions, generate_series(1, 2000) n where id = ${newest}`.execute(
    database.db,
  );
  await sql`update sessions set participants = '[{"name":"ada","type":"human"}]' where id like 'copy-%' or id = ${newest}`.execute(
    database.db,
  );
  const read = await database.db.transaction().execute(async (transaction) => {
    const before = await rowsRead(transaction);
    assert.equal(await found(transaction, 'ada'), newest);
    return (await rowsRead(transaction)) - before;
  });
  assert.ok(read < 50, `${read} rows were read`);
});

test('who joined before an upgrade is found after it', async () => {
  const session = await newSession();
  await joinSession(database.db, session, { name: 'bo', type: 'human' });
  await sql`delete from session_participants`.execute(database.db);
  await sql`delete from migrations where name like '%newest-session-of-a-participant.sql'`.execute(database.db);
  assert.equal(await found(database.db, 'bo'), undefined);
  await migrate(database);
  assert.equal(await found(database.db, 'bo'), session);
});

test('who was only in a session that is gone is not known, also when its id is used again', async () => {
  const session = await newSession();
  await joinSession(database.db, session, { name: 'cy', type: 'human' });
  assert.ok(await isKnownParticipant(database.db, directory, orgId, 'cy'));
  assert.ok(await dropSession(database.db, orgId, session));
  await request('POST', '/v1/sessions', { session_id: session });
  assert.equal(await isKnownParticipant(database.db, directory, orgId, 'cy'), false);
});

test('a session that is not kept, or of a deleted agent, is nobody’s newest', async () => {
  const { db } = database;
  const [older, newer] = [await newSession(), await newSession()];
  for (const session of [older, newer]) await joinSession(db, session, { name: 'eli', type: 'human' });
  await sql`update sessions set stored = false where id = ${newer}`.execute(db);
  assert.equal(await found(db, 'eli'), older);
  await sql`update sessions set updated_at = now() where id in (${older}, ${newer})`.execute(db);
  assert.equal(await newestSessionWith(db, directory, orgId, 'assistant', 'evt_unknown'), older);
  await sql`update agents set deleted_at = now()`.execute(db);
  assert.equal(await found(db, 'eli'), undefined);
  await sql`update agents set deleted_at = null`.execute(db);
});

test('who takes part in a session, and what was brought there, is known to its organization alone', async () => {
  const { db } = database;
  const session = await newSession();
  await joinSession(db, session, { name: 'fay', type: 'human' });
  const event = { id: 'evt_theirs', sender_id: 'ada', sender_type: 'human' as const, event_type: 'message', hops: [] };
  await recordEvent(db, orgId, event, `session ${session}`, session);
  const nobody = { agentBySlug: async () => undefined };
  const newest = (org: number) => newestSessionWith(db, nobody, org, 'fay', event.id);
  assert.deepEqual([await newest(orgId), await newest(otherOrgId)], [session, undefined]);
  assert.equal(await isKnownParticipant(db, directory, otherOrgId, 'fay'), false);
});

test('a gateway is the same however its URL is spelled', () => {
  for (const url of [
    'https://there.example.com/gateway',
    'HTTPS://There.Example.Com:443/gateway//?key=1',
    'https://there.example.com/gateway/#top',
  ])
    assert.equal(gatewayUrl(url), 'https://there.example.com/gateway');
});

test('of two processes that find an event, one tells the others, a long reply in pieces', async () => {
  const { db } = database;
  const session = await newSession();
  await joinSession(db, session, { name: 'dee', type: 'ai', gateway_url: 'https://there.example.com' });
  await request('POST', `/v1/sessions/${session}/messages`, { text: '/say yes' });
  const { id: turn } = await db.selectFrom('turns').select('id').where('session_id', '=', session).executeTakeFirstOrThrow();
  const event = { id: 'evt_twice', sender_id: 'ada', sender_type: 'human' as const, event_type: 'message', message: '/say yes', hops: [] };
  const [own, now] = [{ name: 'here', url: undefined }, new Date()];
  // Longer than a message may be by one character.
  const said = `${'y'.repeat(199_999)}😀!`;
  await sql`update events set data = ${JSON.stringify({ text: said })} where session_id = ${session} and type = 'message-produced'`.execute(
    db,
  );
  const brought = `session ${session}`;
  for (const target of [submitTarget, brought]) await recordEvent(db, orgId, event, target, session);
  const theirs = () => recordEvent(db, otherOrgId, event, submitTarget, 'ses_theirs');
  await theirs();
  const setTheirs = (state: string) => sql`update gateway_events set state = ${state} where org_id = ${otherOrgId}`.execute(db);
  const open = { org_id: orgId, event_id: event.id, session_id: session, turn_id: turn, event };
  const mark = () => markAdmitted(db, open, own, now);
  await Promise.all([mark(), mark()]);
  assert.equal((await theirs()).state, 'received', 'another organization’s of the same id is another event');
  await setTheirs('admitted');
  const reply = () => deliverReply(db, open, own, now);
  await Promise.all([reply(), reply()]);
  const queued = await db.selectFrom('deliveries').select('body').where('org_id', '=', orgId).orderBy('position').execute();
  const told = queued.map(({ body }) => JSON.parse(body).event);
  assert.deepEqual([told[0].message, told[1].message === said.slice(0, -1), told[2].message], ['/say yes', true, '!']);
  assert.deepEqual(
    told.map(({ id }) => id),
    ['evt_twice', `${turn}.reply`, `${turn}.reply.2`],
  );
  const { state } = await recordEvent(db, orgId, event, brought, session);
  assert.equal(state, 'received', 'that it is also brought here is another matter');
  assert.equal((await theirs()).state, 'admitted');
  await setTheirs('received');
  await forgetEvent(db, orgId, event.id, submitTarget);
  await forgetEvent(db, orgId, event.id, brought);
  const left = await sql<{ org_id: number; state: string }>`
    select org_id, state from gateway_events where event_id = ${event.id} order by org_id`.execute(db);
  assert.deepEqual(left.rows, [
    { org_id: orgId, state: 'done' },
    { org_id: otherOrgId, state: 'received' },
  ]);
});

test('an event whose record is forgotten when it is sent again is new, and one forgotten when its turn is admitted is recorded', async () => {
  const { db } = database;
  const event = { id: 'evt_forgotten', sender_id: 'ada', sender_type: 'human' as const, event_type: 'message', hops: [] };
  const session = await newSession();
  await recordEvent(db, orgId, event, submitTarget, session);
  let forgotten: Promise<void> | undefined;
  const meanwhile: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      forgotten ??= forgetEvent(db, orgId, event.id, submitTarget);
      await forgotten;
      return result;
    },
  };
  const { isNew, sessionId } = await recordEvent(db.withPlugin(meanwhile), orgId, event, submitTarget, session);
  assert.deepEqual([isNew, sessionId], [true, session]);
  await forgetEvent(db, orgId, event.id, submitTarget);
  const open = { org_id: orgId, event_id: event.id, session_id: session, turn_id: 'turn_admitted', event };
  await markAdmitted(db, open, { name: 'here', url: undefined }, new Date());
  const record = await recordEvent(db, orgId, event, submitTarget, undefined);
  assert.deepEqual([record.state, record.sessionId], ['admitted', session], 'so that its reply is sent');
  await deliverReply(db, open, { name: 'here', url: undefined }, new Date());
});

test('a look for replies ends when none is owed, however many were', async () => {
  const { db } = database;
  await sql`insert into gateway_events (org_id, event_id, target, session_id, turn_id, event, state)
    select ${orgId}, 'evt_owed_' || n, ${submitTarget}, 'ses_owed', 'turn_owed', '{}', 'admitted' from generate_series(1, 120) n`.execute(
    db,
  );
  const worker = new ReplyWorker({ ...context, identity: { name: 'here', url: undefined } });
  worker.start();
  await until(async () => (await sql`select 1 from gateway_events where state = 'admitted'`.execute(db)).rows.length === 0);
  await worker.stop();
});

async function rowsRead(transaction: Db): Promise<number> {
  const { rows } = await sql<{ count: string }>`
    select sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid)) as count
    from pg_class where relname in ('sessions', 'session_participants', 'sessions_by_participant', 'sessions_of_participant')`.execute(
    transaction,
  );
  return Number(rows[0]?.count);
}
