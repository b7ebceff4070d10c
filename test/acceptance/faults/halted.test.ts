// A process that is halted (SIGSTOP, a suspended machine, a long pause of its host) for longer than its leases last, and then wakes.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isLong } from '../../support/chance.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../../support/database-proxy.ts';
import { createDatabase, engine, type TestDatabase } from '../../support/engine.ts';
import { serveKillPoints } from '../../support/kill-points.ts';
import { mixedLoadSettings } from '../../support/mixed-load.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { connect, type LogEntry, type Wire } from '../../support/wire.ts';

const haltMs = isLong ? 60_000 : 8_000;
/** Long enough that none runs out on a busy machine while its process is not halted. */
const leaseMs = 2_000;
const patienceMs = 45_000;
const settings = { ...mixedLoadSettings, PARLEY_LEASE_MS: String(leaseMs) };
const points = await serveKillPoints();
after(() => points.close());

test('an embedded server that was halted goes on where it was', { skip: engine === 'postgres', timeout: haltMs + 60_000 }, async (t) => {
  const server = await startServer(t, { settings });
  const client = connect(server.url, server.apiKey);
  await client.post('/v1/sessions', { session_id: 'halted' });
  const answer = client.post('/v1/sessions/halted/messages', { text: '/delay 20\n/words 40' });
  await until(async () => (await logOf(client, 'halted')).length >= 2, patienceMs);
  await halt(server, haltMs / 4);
  assert.equal((await answer).status, 200);
  const log = await logOf(client, 'halted');
  assert.deepEqual(
    log.map((entry) => entry.type),
    ['user.message', 'session.status_running', 'agent.message', 'session.status_idle'],
  );
});

describe('a halted process of a fleet', { skip: engine === 'pglite', concurrency: 3, timeout: haltMs + 90_000 }, () => {
  test('its turn is taken over, and when it wakes it adds nothing and serves again', async (t) => {
    const { halted, other, one, two } = await startTwo(t);
    await one.post('/v1/sessions', { session_id: 'words' });
    const answer = one.post('/v1/sessions/words/messages', { text: '/delay 40\n/words 50' });
    await until(async () => (await logOf(two, 'words')).length >= 2, patienceMs);
    const log: LogEntry[] = [];
    await halt(halted, haltMs, async () => {
      await untilIdle(two, 'words');
      log.push(...(await logOf(two, 'words')));
    });
    assert.equal((await answer).status, 200, 'whoever waited at the halted process gets the answer of the other');
    // Its next beat comes within a quarter of a lease; a turn of its own follows the one that was taken from it.
    assert.equal((await one.post('/v1/sessions/words/messages', { text: '/say again' })).body.text, 'again');
    await sleep(leaseMs);
    const whole = await logOf(two, 'words');
    assert.deepEqual(whole.slice(0, log.length), log);
    assert.equal(whole.length, log.length + 4);
    assertSound(whole);
    assert.equal((await fetch(`${other.url}/readyz`)).status, 200);
  });

  test('a tool call that it had recorded, and that another has given up since, is not run when it wakes', async (t) => {
    const { halted, one, two, proxy } = await startTwo(t);
    await one.post('/demo/shop/v1/sessions', { session_id: 'tool' });
    // Halted with the commit under way: the answer waits for it to wake.
    const waking = new Promise<void>((resolve, reject) => {
      let isHalted = false;
      proxy.loses = (request) => {
        if (!isHalted && request.includes('apply-operations') && request.includes('"tool-called"')) {
          isHalted = true;
          halt(halted, haltMs, () => untilIdle(two, 'tool', 'shop')).then(resolve, reject);
        }
        return false;
      };
    });
    const marker = `halted${process.pid}`;
    const answer = one.post('/demo/shop/v1/sessions/tool/messages', { text: `charge ${marker}` });
    await untilIdle(two, 'tool', 'shop');
    const log = await logOf(two, 'tool', 'shop');
    assert.match(String(log.find((entry) => entry.type === 'agent.tool_result')?.output), /outcome is unknown/);
    await waking;
    assert.equal((await answer).status, 200);
    await sleep(leaseMs);
    assert.equal(points.runs.get(marker), undefined, 'nobody expects it any more');
    assert.deepEqual(await logOf(two, 'tool', 'shop'), log);
    assertSound(log);
  });

  test('rows that it had locked in a transaction are free again, and the transaction is undone', async (t) => {
    const { halted, one, two, proxy } = await startTwo(t);
    // Between the statements of a change: the audit chain of the org is locked then.
    const waking = new Promise<void>((resolve, reject) => {
      let isHalted = false;
      proxy.loses = (request) => {
        if (!isHalted && /insert into "audit_events"/.test(request)) {
          isHalted = true;
          halt(halted, Math.max(haltMs, 14_000)).then(resolve, reject);
        }
        return false;
      };
    });
    const cut = one.post('/api/api_keys', { name: 'Halted', scopes: [] });
    await until(async () => (await stateOf(halted)) === 'T', patienceMs);
    const made = await two.post('/api/api_keys', { name: 'Other', scopes: [] });
    assert.equal(made.status, 201, 'another process is not held up for good');
    await waking;
    const { status, headers } = await cut;
    assert.equal(status, 503);
    assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    const { body } = await two.get('/api/api_keys?limit=100');
    const names = body.data.map((key: { name: string }) => key.name);
    assert.deepEqual([names.includes('Halted'), names.includes('Other')], [false, true]);
    assert.equal((await two.get('/api/audit_events/verification')).body.valid, true);
  });
});

interface Fleet {
  database: TestDatabase;
  halted: ServerProcess;
  other: ServerProcess;
  one: Wire;
  two: Wire;
  /** Between the process that is halted and the database. */
  proxy: DatabaseProxy;
}

async function startTwo(t: TestContext): Promise<Fleet> {
  const database = await createDatabase();
  t.after(() => database.remove());
  const proxy = await startDatabaseProxy(t, database);
  const other = await startServer(t, { database, settings });
  const halted = await startServer(t, { database: proxy.database, settings });
  const two = connect(other.url, other.apiKey);
  await two.post('/api/agents', { slug: 'shop', name: 'Shop' });
  await two.post('/api/agents/shop/releases', { ...points.release, activate: true });
  await until(async () => {
    const { body } = await two.get('/api/agents/shop/releases/1');
    return body.release.state === 'materialized';
  }, patienceMs);
  return { database, halted, other, one: connect(halted.url, halted.apiKey), two, proxy };
}

/** For so long, and until others have done what they do meanwhile: on a busy machine that takes its time. */
async function halt(server: ServerProcess, milliseconds: number, meanwhile = async () => {}): Promise<void> {
  process.kill(server.pid, 'SIGSTOP');
  try {
    await Promise.all([sleep(milliseconds), meanwhile()]);
  } finally {
    process.kill(server.pid, 'SIGCONT');
  }
}

/** The state letter of the process, as Linux tells it. */
async function stateOf(server: ServerProcess): Promise<string> {
  return (await readFile(`/proc/${server.pid}/stat`, 'utf8')).split(') ')[1]?.[0] ?? '';
}

async function logOf(client: Wire, id: string, agent = 'assistant'): Promise<LogEntry[]> {
  return (await client.get(`/demo/${agent}/v1/managed-agents/sessions/${id}`)).body.events ?? [];
}

async function untilIdle(client: Wire, id: string, agent?: string): Promise<void> {
  await until(async () => (await logOf(client, id, agent)).at(-1)?.type === 'session.status_idle', patienceMs);
}

function assertSound(log: LogEntry[]): void {
  assert.deepEqual(
    log.map((entry) => entry.seq),
    log.map((_entry, index) => index + 1),
  );
  const count = (type: string) => log.filter((entry) => entry.type === type).length;
  assert.equal(count('session.status_idle') + count('session.error'), count('user.message'));
}
