// Another gateway that is away, breaks connections, and loses its own answers: what it is owed reaches it once.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { freePort } from '../../support/free-port.ts';

test('a reply is tried again over refused, reset and lost connections, by the schedule, and is in the log of the other once', async (t) => {
  const port = await freePort();
  const peer = `http://127.0.0.1:${port}`;
  let now = Date.now();
  const settings = { PARLEY_GATEWAY: '1', PARLEY_PUBLIC_URL: 'https://here.example.com' };
  const there = await startApp(t, { settings: { ...settings, PARLEY_PUBLIC_URL: peer, PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
  const here = await startApp(t, {
    clock: { now: () => new Date(now) },
    settings: { ...settings, PARLEY_GATEWAY_PEERS: JSON.stringify({ [peer]: there.apiKey }) },
  });
  const { id: theirs } = (await there.call('POST', '/v1/sessions', { key: there.apiKey })).body;
  const seat = { sender_id: 'bob', sender_type: 'human', event_type: 'join', session_id: theirs };
  assert.equal((await there.call('POST', '/v1/gateway/events', { key: there.apiKey, body: seat })).status, 200);

  const failures = async (): Promise<string[]> => {
    await here.context.courier.idle();
    const rows = await here.context.database.db.selectFrom('delivery_attempts').select('error').orderBy('started_at').execute();
    return rows.map(({ error }) => error ?? 'none');
  };
  const later = (milliseconds: number) => {
    now += milliseconds;
  };

  // Nobody listens.
  const asked = { sender_id: 'bob', sender_type: 'human', event_type: 'message', message: '/say Still here.', sender_gateway_url: peer };
  assert.equal((await here.call('POST', '/v1/gateway/events', { key: here.apiKey, body: asked })).status, 200);
  while ((await failures()).length < 1) await new Promise(setImmediate);
  assert.match((await failures())[0] ?? '', /refused/i);

  // Too soon: nothing is sent.
  later(3_900);
  assert.equal((await failures()).length, 1);

  // It accepts, reads, and resets; then it is whole, but its answer is lost on the way.
  let meet = (socket: Socket): void => void socket.once('data', () => socket.resetAndDestroy());
  const gateway = createServer((socket) => meet(socket));
  t.after(() => void gateway.close());
  gateway.listen(port, '127.0.0.1');
  await once(gateway, 'listening');
  later(2_200);
  assert.equal((await failures()).length, 2);
  const upstream = Number(new URL(await there.listen()).port);
  meet = (socket) => pass(socket, upstream, true);
  later(6 * 60_000 + 1_000);
  assert.equal((await failures()).length, 3);
  assert.deepEqual(await heard(), [['assistant', 'Still here.']], 'it was taken, though its sender does not know');

  meet = (socket) => pass(socket, upstream, false);
  later(36 * 60_000 + 1_000);
  assert.equal((await failures()).length, 4);
  assert.equal((await failures())[3], 'none');
  assert.deepEqual(await heard(), [['assistant', 'Still here.']]);
  later(20 * 3_600_000);
  assert.equal((await failures()).length, 4, 'what arrived is sent no more');

  async function heard(): Promise<[string, string][]> {
    const path = `/demo/assistant/v1/managed-agents/sessions/${theirs}`;
    const { events } = (await there.call('GET', path, { key: there.apiKey })).body;
    return events
      .filter((event: { type: string }) => event.type === 'user.message')
      .map((event: { participant_name: string; text: string }) => [event.participant_name, event.text]);
  }
});

/** Joins the socket to the port behind it, and, if told so, breaks off when the answer comes. */
function pass(socket: Socket, port: number, losesAnswer: boolean): void {
  const behind = connect(port, '127.0.0.1');
  socket.pipe(behind);
  if (losesAnswer) behind.once('data', () => socket.resetAndDestroy());
  else behind.pipe(socket);
  for (const one of [socket, behind]) one.on('error', () => one.destroy());
  socket.once('close', () => behind.destroy());
}
