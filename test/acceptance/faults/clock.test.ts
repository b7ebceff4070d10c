// The clock of a server jumps, forward and back, while turns run: leases, tokens, webhooks and the audit chain stay sane.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chances, isLong, seed } from '../../support/chance.ts';
import { createDatabase, engine, type TestDatabase } from '../../support/engine.ts';
import { mixedLoadSettings } from '../../support/mixed-load.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';
import { connect, type Wire } from '../../support/wire.ts';

const preload = join(import.meta.dirname, '../../support/jumping-clock.ts');
const managed = '/demo/assistant/v1/managed-agents/sessions';

interface JumpingServer {
  server: ServerProcess;
  wire: Wire;
  /** Seconds from the true time. */
  jumpTo(seconds: number): Promise<void>;
}

async function startJumping(t: TestContext, database: TestDatabase): Promise<JumpingServer> {
  const file = join(database.settings.PARLEY_DATA_DIR, 'clock');
  writeFileSync(file, '0');
  const clock = { NODE_OPTIONS: `--import=${preload}`, PARLEY_TEST_CLOCK: file };
  const server = await startServer(t, { database, settings: { ...mixedLoadSettings, PARLEY_LEASE_MS: '1000', ...clock } });
  return {
    server,
    wire: connect(server.url, server.apiKey),
    async jumpTo(seconds) {
      writeFileSync(file, String(seconds));
      // The server looks into the file fifty times a second.
      await sleep(60);
    },
  };
}

test('a clock that jumps neither loses nor repeats a turn, expires tokens by what it says, and delays no webhook', {
  timeout: 120_000,
}, async (t) => {
  t.diagnostic(`seed ${seed}`);
  const chance = chances(seed);
  const database = await createDatabase();
  t.after(() => database.remove());
  const receiver = await startReceiver(t);
  const { wire, jumpTo } = await startJumping(t, database);
  await wire.post('/api/webhook_endpoints', { name: 'Hooks', url: receiver.url, event_types: ['turn.completed'] });
  await wire.post('/v1/sessions', { session_id: 'jumps' });
  const minted = await wire.post('/api/agents/assistant/session_tokens', { end_user_id: 'ann' });
  assert.equal(minted.status, 200, minted.text);
  const token = connect(wire.url, minted.body.token);
  assert.equal((await token.get(managed)).status, 200);

  const hour = 3_600;
  const jumps = [
    hour,
    -hour,
    0,
    24 * hour,
    -24 * hour,
    // By whole hours: the token of 15 minutes is never about to expire.
    ...Array.from({ length: isLong ? 40 : 2 }, () => Math.round((chance() - 0.5) * 60) * hour),
    0,
  ];
  let turns = 0;
  for (const jump of jumps) {
    // In the middle of a turn that outlasts its lease.
    const running = wire.post('/v1/sessions/jumps/messages', { text: `/delay 60\n/say one two three four five six ${jump}` });
    await sleep(chance() * 200);
    await jumpTo(jump);
    const said = await running;
    assert.deepEqual([said.status, said.body.text], [200, `one two three four five six ${jump}`], said.text);
    turns += 1;
    assert.equal((await wire.post('/v1/sessions/jumps/messages', { text: '/say after it' })).body.text, 'after it');
    turns += 1;
    await receiver.until((received) => received.length >= turns, `the webhook of a turn at ${jump} s`);
    assert.equal((await token.get(managed)).status, jump > 900 ? 401 : 200, `a token of 15 minutes at ${jump} s`);
    const fresh = await wire.post('/api/agents/assistant/session_tokens', { end_user_id: 'ann' });
    assert.equal((await connect(wire.url, fresh.body.token).get(managed)).status, 200, `a token minted at ${jump} s`);
  }
  const { body } = await wire.get(`${managed}/jumps`);
  assert.deepEqual(
    body.events.map((event: { seq: number }) => event.seq),
    body.events.map((_event: unknown, index: number) => index + 1),
  );
  assert.equal(body.events.length, turns * 4, 'each turn has its four entries, once');
  assert.equal(receiver.received.length, turns, 'each webhook came once');
  assert.equal((await wire.get('/api/audit_events/verification')).body.valid, true);
});

test('a process whose clock is ahead neither loses its turns, nor takes those of others, nor forgets deliveries', {
  skip: engine === 'pglite',
}, async (t) => {
  const database = await createDatabase();
  t.after(() => database.remove());
  const ahead = await startJumping(t, database);
  const other = await startServer(t, { database, settings: { ...mixedLoadSettings, PARLEY_LEASE_MS: '1000' } });
  const wires = [ahead.wire, connect(other.url, other.apiKey)];
  for (const jump of [3_600, -3_600]) {
    await ahead.jumpTo(jump);
    await Promise.all(
      wires.map(async (wire, index) => {
        const id = `skew-${index}-${Math.abs(jump)}${jump < 0 ? 'back' : ''}`;
        await wire.post('/v1/sessions', { session_id: id });
        const said = await wire.post(`/v1/sessions/${id}/messages`, { text: '/delay 100\n/words 25' });
        assert.equal(said.status, 200, said.text);
        const { body } = await wire.get(`${managed}/${id}`);
        assert.equal(body.events.length, 4, JSON.stringify(body.events));
      }),
    );
  }
  const [wire] = wires;
  assert.ok(wire);
  await wire.post('/api/webhook_endpoints', { name: 'Hooks', url: (await startReceiver(t)).url, event_types: ['turn.completed'] });
  await wire.post('/v1/sessions/skew-0-3600/messages', { text: '/say kept' });
  const deliveries = async () => (await wire.get('/api/webhook_endpoints/1/deliveries')).body.data.length;
  await until(async () => (await deliveries()) === 1);
  await ahead.jumpTo(31 * 24 * 3_600);
  await ahead.server.stop();
  await ahead.server.start();
  await sleep(100);
  assert.equal(await deliveries(), 1, 'a start whose clock is a month ahead forgets none');
});
