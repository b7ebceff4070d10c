import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createParser } from 'eventsource-parser';
import type { Entry } from '../../support/managed.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { connect, type Wire } from '../../support/wire.ts';

const base = '/demo/assistant/v1/managed-agents/sessions';

test('streams resume and approvals wait across a killed server, and a stopping one says so', async (t) => {
  const server = await startServer(t, { settings: { PARLEY_LEASE_MS: '500' } });
  const wire = connect(server.url, server.apiKey);
  const isIdle = (entry: Entry) => entry.type === 'session.status_idle';
  const running = await create(wire);
  const paused = await create(wire);
  await post(wire, running, { type: 'user.message', text: '/tool files {"operation":"list"}' });
  await post(wire, paused, { type: 'user.message', text: '/tool bash {"command":"echo survived"}' });
  const first = await read(server, running, 0, isIdle);
  const asked = (await read(server, paused, 0, isIdle)).at(-1);
  await post(wire, running, { type: 'user.message', text: '/delay 40\n/words 50' });
  const seen = await read(server, running, first.at(-1)?.seq ?? 0, (entry) => entry.type === 'session.status_running');
  await server.kill();
  await server.start();

  const rest = await read(server, running, seen.at(-1)?.seq ?? 0, isIdle);
  const log = [...first, ...seen, ...rest];
  assert.deepEqual(
    log.map((entry) => entry.seq),
    log.map((_, index) => index + 1),
  );
  assert.equal(rest.at(-1)?.stop_reason, 'end_turn');
  assert.deepEqual(await read(server, running, 0, (entry) => entry.seq === log.length), log, 'a replay is the same log');

  assert.deepEqual((await read(server, paused, 0, isIdle)).at(-1), asked, 'whoever attaches now sees what is asked');
  await post(wire, paused, { type: 'user.tool_confirmation', request_id: asked?.request_id, result: 'approve_once' });
  const continued = await read(server, paused, asked?.seq ?? 0, isIdle);
  assert.equal(continued.find((entry) => entry.type === 'agent.tool_result')?.output, 'survived');

  const closing = await read(
    server,
    running,
    log.length,
    (entry) => entry.type === 'stream.closed',
    () => void server.stop(),
  );
  assert.equal(closing.at(-1)?.reason, 'server_shutdown');
  assert.equal(await server.stop(), 0);
});

async function create(wire: Wire): Promise<string> {
  const answer = await wire.post(base, {});
  assert.equal(answer.status, 201, answer.text);
  return answer.body.id;
}

async function post(wire: Wire, id: string, event: unknown): Promise<void> {
  const answer = await wire.post(`${base}/${id}/events`, event);
  assert.equal(answer.status, 202, answer.text);
}

/** The entries after `after`, up to the one that is wanted. */
async function read(
  server: ServerProcess,
  id: string,
  after: number,
  isLast: (entry: Entry) => boolean,
  onOpen = () => {},
): Promise<Entry[]> {
  const abort = new AbortController();
  const response = await fetch(`${server.url}${base}/${id}/events/stream?after=${after}`, {
    headers: { authorization: `Bearer ${server.apiKey}` },
    signal: abort.signal,
  });
  onOpen();
  const entries: Entry[] = [];
  const parser = createParser({ onEvent: ({ data }) => entries.push(JSON.parse(data)) });
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    const last = entries.findIndex(isLast);
    if (last >= 0) return entries.slice(0, last + 1);
  }
  throw new Error(`the stream ended after ${entries.length} entries`);
}
