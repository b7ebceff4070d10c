// Very many readers, one in ten of which has stopped reading. Node raises the limit of open files to the hard one by itself.
// Runs alone when long: it measures how long a frame takes to each of ten thousand readers.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isLong } from '../../support/chance.ts';
import { engine } from '../../support/engine.ts';
import { percentile } from '../../support/flood.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { type Wire, connect as wireTo } from '../../support/wire.ts';

const base = '/demo/assistant/v1/managed-agents/sessions';
const readers = Math.min(isLong ? 10_000 : 1_000, openFiles() - 500);
const stalled = readers / 10;
const readersPerSession = 10;
const stalledPerSession = 50;
const stallMs = isLong ? 20_000 : 2_000;
/** The kernel keeps up to 4 MiB for a connection that nobody reads; then the server notices. */
const bigTurns = 130;
const bigText = 'x'.repeat(40_000);

test(`${readers} readers of streams, ${stalled} of them stalled: those are cut, the others hardly notice, memory stays flat`, {
  timeout: 600_000,
  skip: !isLong && engine === 'pglite' && 'streams are the same on both',
}, async (t) => {
  // What is not read would not fit: a server that kept it for its readers would end here.
  const heapMiB = isLong ? 512 : 224;
  assert.ok((stalled * bigTurns * bigText.length) / 2 ** 20 > 2 * heapMiB);
  const settings = {
    PARLEY_RATE_LIMIT_RPS: '0',
    PARLEY_STREAM_STALL_MS: String(stallMs),
    NODE_OPTIONS: `--max-old-space-size=${heapMiB}`,
  };
  const server = await startServer(t, { settings });
  const wire = wireTo(server.url, server.apiKey);
  const sockets: Socket[] = [];
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });

  const busy = await createSessions(wire, (readers - stalled) / readersPerSession);
  const stuck = await createSessions(wire, stalled / stalledPerSession);
  const heard = new Heard();
  await open(
    server,
    busy.flatMap((id) => Array<string>(readersPerSession).fill(id)),
    (socket, id) => {
      sockets.push(socket);
      socket.on('data', (text: string) => heard.take(id, text));
    },
  );
  await open(
    server,
    stuck.flatMap((id) => Array<string>(stalledPerSession).fill(id)),
    (socket) => sockets.push(socket.pause()),
  );
  await until(async () => (await metric(wire, 'parley_streams_open')) === readers, 60_000, 'all are open');
  await measureTurns(wire, heard, busy, 1_000);
  const before = await metric(wire, 'process_resident_memory_bytes');

  let isOver = false;
  const cutting = stuffAll(wire, stuck).finally(() => {
    isOver = true;
  });
  const times: number[] = [];
  while (!isOver) times.push(...(await measureTurns(wire, heard, busy, 500)));
  const cutAfter = await cutting;
  const after = await metric(wire, 'process_resident_memory_bytes');

  const p99 = percentile(times, 0.99);
  const grown = (after - before) / 2 ** 20;
  t.diagnostic(
    `${readers} readers: cut after ${Math.round(cutAfter)} ms, frames ${times.length}, p50 ${percentile(times, 0.5)} ms, p99 ${p99} ms, ${Math.round(before / 2 ** 20)} MiB and ${Math.round(grown)} more`,
  );
  assert.equal(await metric(wire, 'parley_streams_cut_total'), stalled, 'those and no others');
  assert.ok(cutAfter < stallMs + 10_000, `cut after ${cutAfter} ms`);
  assert.ok(p99 < (isLong ? 250 : 1_500), `p99 is ${p99} ms`);
  assert.ok(grown < heapMiB, `grew by ${grown} MiB`);
});

/** When each reader of a session saw the end of the turn that is being timed. */
class Heard {
  private readonly listeners = new Map<string, () => void>();

  take(id: string, text: string): void {
    for (let at = text.indexOf('event: session.status_idle'); at >= 0; at = text.indexOf('event: session.status_idle', at + 1))
      this.listeners.get(id)?.();
  }

  /** Milliseconds until each reader had it. */
  async times(id: string, post: () => Promise<unknown>): Promise<number[]> {
    const times: number[] = [];
    const begun = performance.now();
    const all = new Promise<void>((resolve) => {
      this.listeners.set(id, () => {
        times.push(performance.now() - begun);
        if (times.length === readersPerSession) resolve();
      });
    });
    await post();
    await all;
    return times;
  }
}

/** One turn after another, each in the next session, for so long. */
async function measureTurns(wire: Wire, heard: Heard, sessions: string[], forMs: number): Promise<number[]> {
  const times: number[] = [];
  const end = performance.now() + forMs;
  while (performance.now() < end) {
    const id = sessions[turnCount++ % sessions.length] ?? '';
    times.push(...(await heard.times(id, () => say(wire, id, '/words 10'))));
    await sleep(5);
  }
  return times;
}

let turnCount = 0;

/** Stuffs one session after another, no more at a time than the kernel has room for, and gives the longest time until one was cut. */
async function stuffAll(wire: Wire, sessions: string[]): Promise<number> {
  let longest = 0;
  const cuts: Promise<void>[] = [];
  for (const [index, id] of sessions.entries()) {
    const cutOf = async (count: number) => (await metric(wire, 'parley_streams_cut_total')) >= count * stalledPerSession;
    await until(() => cutOf(index - 3), 60_000, 'earlier ones are cut');
    await stuff(wire, id);
    const begun = performance.now();
    cuts.push(
      until(() => cutOf(index + 1), 60_000, 'the stalled are cut').then(() => {
        longest = Math.max(longest, performance.now() - begun);
      }),
    );
  }
  await Promise.all(cuts);
  return longest;
}

/** Says so much that whoever does not read it is found out. */
async function stuff(wire: Wire, id: string): Promise<void> {
  for (let turn = 0; turn < bigTurns; turn += 1) {
    const answer = await wire.post(`/v1/sessions/${id}/messages`, { text: `/say ${bigText}` });
    assert.equal(answer.status, 200, answer.text.slice(0, 200));
  }
}

async function say(wire: Wire, id: string, text: string): Promise<void> {
  const answer = await wire.post(`${base}/${id}/events`, { type: 'user.message', text });
  assert.equal(answer.status, 202, answer.text);
}

async function createSessions(wire: Wire, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const answer = await wire.post(base, { prewarm: false });
    assert.equal(answer.status, 201, answer.text);
    ids.push(answer.body.id);
  }
  return ids;
}

/** A few at a time, as they would come; one that is sent away for now comes back. */
async function open(server: ServerProcess, ids: string[], take: (socket: Socket, id: string) => void): Promise<void> {
  for (let index = 0; index < ids.length; index += 50) {
    await Promise.all(ids.slice(index, index + 50).map(async (id) => take(await openOne(server, id), id)));
  }
}

async function openOne(server: ServerProcess, id: string): Promise<Socket> {
  const { port, hostname } = new URL(server.url);
  for (;;) {
    const socket = connect(Number(port), hostname).setEncoding('latin1');
    socket.write(`GET ${base}/${id}/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.apiKey}\r\n\r\n`);
    const [head] = (await once(socket, 'data')) as [string];
    socket.on('error', () => {});
    if (head.startsWith('HTTP/1.1 200')) return socket;
    assert.match(head, /^HTTP\/1\.1 503/);
    socket.destroy();
    await sleep(500);
  }
}

async function metric(wire: Wire, name: string): Promise<number> {
  const { text } = await wire.get('/metrics');
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

async function until(isSo: () => Promise<boolean>, withinMs: number, what: string): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await isSo())) {
    assert.ok(performance.now() < end, `${what}: not within ${withinMs} ms`);
    await sleep(500);
  }
}

function openFiles(): number {
  const limit = execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim();
  return limit === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(limit);
}
