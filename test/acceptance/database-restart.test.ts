// PostgreSQL crashes and comes back under load, is read-only or closed: requests of that moment hear 503, and nothing acknowledged is lost.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type Owner, startApp } from '../support/app.ts';
import { startDatabaseProxy } from '../support/database-proxy.ts';
import { createDatabase, engine } from '../support/engine.ts';
import { serveKillPoints } from '../support/kill-points.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { createTenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

const skip = engine === 'postgres' ? false : 'the embedded database lives and dies with its process';

test('a restart of PostgreSQL heals by itself', { skip }, async (context) => {
  // What it acknowledged must survive its own crash, so that a loss would be ours.
  const postgres = await startPostgres({ synchronous_commit: 'on' });
  const database = await createDatabase(postgres.url);
  const app = await startApp(context, { database, settings: { PARLEY_LEASE_MS: '500', PARLEY_LOG_LEVEL: 'silent' } });
  context.after(async () => {
    await database.remove();
    await postgres.stop();
  });
  const tenant = await createTenant(await app.listen());
  const sessions = await Promise.all(Array.from({ length: 12 }, () => tenant.session()));
  const acknowledged = new Map<string, string[]>(sessions.map((id) => [id, []]));
  const refused: { status: number; retryAfter: string | null; text: string }[] = [];
  let isOver = false;

  const talk = async (id: string) => {
    for (let number = 1; !isOver; number += 1) {
      const text = `/delay 3\n/say ${number} of many words in a row`;
      const answer = await tenant.post(`/v1/sessions/${id}/messages`, { text });
      if (answer.status === 200) acknowledged.get(id)?.push(`${number} of many words in a row`);
      else refused.push({ status: answer.status, retryAfter: answer.headers.get('retry-after'), text: answer.text });
    }
  };
  const talking = sessions.map(talk);
  const spoken = () => [...acknowledged.values()].reduce((sum, texts) => sum + texts.length, 0);
  await until(async () => spoken() >= 24);
  for (let crash = 1; crash <= 3; crash += 1) {
    const before = spoken();
    await postgres.restart();
    await until(async () => spoken() >= before + 24);
  }
  isOver = true;
  await Promise.all(talking);

  for (const { status, retryAfter, text } of refused) {
    assert.equal(status, 503, text);
    assert.match(retryAfter ?? '', /^[1-9]\d*$/);
    assert.deepEqual(Object.keys(JSON.parse(text)), ['detail']);
  }
  for (const [id, texts] of acknowledged) {
    const path = `${tenant.agentPath}/v1/managed-agents/sessions/${id}`;
    await until(async () => (await tenant.get(path)).body.status === 'idle');
    const events: { seq: number; type: string; text?: string }[] = (await tenant.get(path)).body.events;
    assert.deepEqual(
      events.map((event) => event.seq),
      events.map((_, index) => index + 1),
    );
    const said = events.filter((event) => event.type === 'agent.message').map((event) => event.text);
    for (const text of texts) assert.ok(said.includes(text), `${text} was acknowledged and is gone`);
    const asked = events.filter((event) => event.type === 'user.message').length;
    const ended = events.filter((event) => event.type === 'session.status_idle' || event.type === 'session.error').length;
    assert.equal(ended, asked, 'every turn has an end');
  }
  assert.equal((await tenant.get('/readyz')).status, 200);
});

test('a tool that ended while PostgreSQL was away for a moment has its result, and its turn goes on', { skip }, async (context) => {
  const database = await createDatabase();
  context.after(() => database.remove());
  const points = await serveKillPoints();
  context.after(async () => points.close());
  const proxy = await startDatabaseProxy(context, database);
  const settings = { PARLEY_LOG_LEVEL: 'silent', PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' };
  const app = await startApp(context, { database: proxy.database, settings });
  const tenant = await createTenant(await app.listen(), points.release);
  await until(async () => (await tenant.get('/api/agents/helper/releases/1')).body.release.state === 'materialized');
  const id = await tenant.session();
  const away = points.killAt('the tool has begun', 'once', async () => {
    await proxy.leave();
    // Over a connection that is not known to be broken, the result would be sent, and nobody could tell whether it arrived.
    await sleep(300);
  });
  const answer = tenant.post(`/v1/sessions/${id}/messages`, { text: 'charge once' });
  await away;
  await sleep(1_000);
  await proxy.comeBack();
  assert.deepEqual([(await answer).status, (await answer).body.text], [200, 'charged once']);
  const { events } = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${id}`)).body;
  const results = events.filter(({ type }: { type: string }) => type === 'agent.tool_result');
  assert.deepEqual(
    results.map(({ output }: { output: string }) => output),
    ['charged once'],
  );
  assert.equal(points.runs.get('once'), 1);
});

const readOnly = '{"detail":"The database accepts no writes at the moment."}';

test('while PostgreSQL is read-only, as a standby is, the process is not ready, and says why', { skip }, async (context) => {
  const app = await startApp(context, { settings: { PARLEY_LEASE_MS: '500', PARLEY_LOG_LEVEL: 'silent' } });
  const { changeForAll } = await databaseChanger(app.context.config.DATABASE_URL, context);
  const becomes = (status: number) => until(async () => (await app.call('GET', '/readyz')).status === status);
  const isMeasured = (value: number) =>
    until(async () => (await app.call('GET', '/metrics')).text.includes(`\nparley_database_ready ${value}\n`));
  await becomes(200);
  await isMeasured(1);
  await changeForAll('set default_transaction_read_only = on');
  await until(async () => (await app.call('GET', '/readyz')).text === readOnly);
  const { status, headers } = await app.call('GET', '/readyz');
  assert.deepEqual([status, headers['retry-after']], [503, '1']);
  await isMeasured(0);
  await changeForAll('reset default_transaction_read_only');
  await becomes(200);
  await isMeasured(1);
});

test('once PostgreSQL takes writes again, the connections of before are no reason not to be ready', { skip }, async (context) => {
  // With more, one that is opened since may come first.
  const app = await startApp(context, { settings: { PARLEY_LOG_LEVEL: 'silent', PARLEY_DATABASE_POOL: '1' } });
  const { change, closeConnections } = await databaseChanger(app.context.config.DATABASE_URL, context);
  await change('set default_transaction_read_only = on');
  await closeConnections();
  await until(async () => (await app.call('GET', '/readyz')).text === readOnly);
  // Connections that are open keep what they were opened with.
  await change('reset default_transaction_read_only');
  await until(async () => (await app.call('GET', '/readyz')).status === 200);
});

test('a database that is closed for maintenance is 503, as one that cannot be reached', { skip }, async (context) => {
  const app = await startApp(context, { settings: { PARLEY_LOG_LEVEL: 'silent' } });
  const tenant = await createTenant(await app.listen());
  const { changeForAll } = await databaseChanger(app.context.config.DATABASE_URL, context);
  await changeForAll('with allow_connections false');
  await until(async () => (await tenant.get('/readyz')).status === 503);
  const { status, headers, text } = await tenant.post('/v1/sessions', {});
  assert.deepEqual([status, text], [503, '{"detail":"The database is not reachable at the moment."}']);
  assert.equal(headers.get('retry-after'), '1');
  await changeForAll('with allow_connections true');
  await until(async () => (await tenant.post('/v1/sessions', {})).status === 200);
});

/** Alters the database, from another one. Only connections that are opened afterwards hear of it. */
async function databaseChanger(url: string | undefined, owner: Owner) {
  const elsewhere = new URL(url ?? '');
  const name = elsewhere.pathname.slice(1);
  elsewhere.pathname = '/postgres';
  const admin = new pg.Client({ connectionString: elsewhere.href });
  await admin.connect();
  owner.after(() => admin.end());
  const change = (how: string) => admin.query(`alter database ${name} ${how}`);
  const closeConnections = () => admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
  return {
    change,
    closeConnections,
    async changeForAll(how: string) {
      await change(how);
      await closeConnections();
    },
  };
}
