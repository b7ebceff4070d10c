import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';
import fc from 'fast-check';
import { refuseEarly } from '../../../src/surfaces/shared/server/early-refusals.ts';
import { rememberResponses } from '../../../src/surfaces/shared/server/newest-response.ts';
import type { Asked } from '../../../src/surfaces/shared/server/refusals.ts';

const host = 'host: parley\r\n';
const key = 'authorization: Bearer someone\r\n';

/** A server that echoes what it is sent, as far as it parses it, and refuses `/busy` ahead of that while it is busy. */
async function startEcho(t: TestContext, keepAliveTimeout = 5_000) {
  const state = { isBusy: true, isStaying: true, refusedEarly: 0, parsed: 0 };
  const server = createServer({ keepAliveTimeout, keepAliveTimeoutBuffer: 0 }, async (request, response) => {
    state.parsed += 1;
    if (!state.isStaying) response.shouldKeepAlive = false;
    let body = '';
    for await (const chunk of request) body += chunk;
    if (request.url === '/slow') await setTimeout(20);
    answer(response, state.isBusy && request.url === '/busy' ? 503 : 200, `${request.method} ${request.url} ${body}`);
  });
  rememberResponses(server);
  const refuse = ({ url = '' }: Asked) => {
    if (!state.isBusy || url !== '/busy') return undefined;
    state.refusedEarly += 1;
    return { headers: { 'content-length': 4, 'retry-after': 1 }, body: 'busy' };
  };
  refuseEarly(server, { refusals: { refuse }, isBusy: () => state.isBusy, isStaying: () => state.isStaying });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { state, server, port: (server.address() as AddressInfo).port };
}

function answer(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-length': Buffer.byteLength(body) }).end(body);
}

/** The answers that have come on a connection. */
function open(t: TestContext, port: number) {
  const socket: Socket = connect(port, '127.0.0.1').setEncoding('utf8').setNoDelay();
  t.after(() => socket.destroy());
  let received = '';
  let waiting = Promise.withResolvers<void>();
  socket.on('data', (text: string) => {
    received += text;
    waiting.resolve();
  });
  const next = async (): Promise<{ status: number; head: string; body: string }> => {
    for (;;) {
      const [, head] = /^([\s\S]*?\r\n)\r\n/.exec(received) ?? [];
      const length = Number(/^content-length: (\d+)\r$/im.exec(head ?? '')?.[1] ?? Number.NaN);
      if (head !== undefined && received.length >= head.length + 2 + length) {
        const body = received.slice(head.length + 2, head.length + 2 + length);
        received = received.slice(head.length + 2 + length);
        return { status: Number(head.slice(9, 12)), head, body };
      }
      waiting = Promise.withResolvers();
      await waiting.promise;
    }
  };
  const ask = (request: string) => {
    socket.write(request);
    return next();
  };
  return { socket, next, ask, rest: () => received };
}

function post(path: string, body = '', more = ''): string {
  return `POST ${path} HTTP/1.1\r\n${host}${key}${more}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

test('what a connection asks for after its first request is refused before it is parsed, until there is room', async (t) => {
  const { state, port } = await startEcho(t);
  const { ask } = open(t, port);
  assert.equal((await ask(post('/busy', 'a'))).body, 'POST /busy a');
  const refused = await ask(post('/busy', 'b'));
  assert.deepEqual([refused.status, refused.body], [503, 'busy']);
  assert.match(
    refused.head,
    /^HTTP\/1\.1 503 Service Unavailable\r\ncontent-length: 4\r\nretry-after: 1\r\ndate: .* GMT\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\n$/,
  );
  assert.equal((await ask(post('/other', 'c'))).body, 'POST /other c');
  assert.equal((await ask(post('/busy', 'd', 'connection: keep-alive\r\n'))).body, 'busy');
  state.isBusy = false;
  assert.equal((await ask(post('/busy', 'e'))).body, 'POST /busy e');
  state.isBusy = true;
  assert.equal((await ask(post('/busy', 'f'))).body, 'busy');
  assert.deepEqual(state, { isBusy: true, isStaying: true, refusedEarly: 3, parsed: 3 });
});

test('a connection from before the overload, or of a process that stops, is left alone', async (t) => {
  const { state, port } = await startEcho(t);
  state.isBusy = false;
  const old = open(t, port);
  await old.ask(post('/busy'));
  state.isBusy = true;
  for (const body of ['a', 'b']) assert.equal((await old.ask(post('/busy', body))).body, `POST /busy ${body}`);
  const stopping = open(t, port);
  await stopping.ask(post('/busy'));
  state.isStaying = false;
  assert.match((await stopping.ask(post('/busy', 'c'))).head, /connection: close/i);
  assert.equal(state.refusedEarly, 0);
});

test('a connection on which requests are refused is as little idle as one on which they are served', async (t) => {
  const { state, port } = await startEcho(t, 400);
  const { socket, ask } = open(t, port);
  await ask(post('/busy'));
  for (let count = 0; count < 8; count += 1) {
    await setTimeout(100);
    assert.equal((await ask(post('/busy'))).body, 'busy');
  }
  assert.equal(state.refusedEarly, 8);
  const asked = performance.now();
  await once(socket, 'close');
  assert.ok(performance.now() - asked > 300, 'it is closed when it is idle');
});

test('a request that comes before the one ahead of it is answered gets its answer after it', async (t) => {
  const { state, port } = await startEcho(t);
  const { socket, next, ask } = open(t, port);
  await ask(post('/busy'));
  socket.write(post('/slow', 'a'));
  await setTimeout(5);
  socket.write(post('/busy', 'b'));
  assert.equal((await next()).body, 'POST /slow a');
  assert.equal((await next()).body, 'POST /busy b');
  assert.equal(state.refusedEarly, 0);
});

test('what looks like a request within the head of another one is none', async (t) => {
  const { state, port } = await startEcho(t);
  const { socket, ask } = open(t, port);
  await ask(post('/busy'));
  socket.write('POST /other HTTP/1.1\r\nx-note: ');
  await setTimeout(20);
  assert.equal((await ask(post('/busy', 'a'))).body, 'POST /other a');
  assert.equal((await ask(post('/busy', 'b'))).body, 'POST /busy b');
  assert.equal(state.refusedEarly, 0);
});

test('refusals do not pile up for a client that reads none', async (t) => {
  const { state, server } = await startEcho(t);
  let isStalled = false;
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => void (isStalled || done()) });
  server.emit('connection', socket);
  socket.push(post('/busy', 'a'));
  await setTimeout(20);
  isStalled = true;
  for (const body of ['b', 'c']) {
    socket.push(post('/busy', body));
    await setTimeout(20);
  }
  assert.deepEqual([state.refusedEarly, state.parsed], [1, 2]);
  socket.destroy();
});

test('however bytes are divided, each request gets its own answer, in order, and no body becomes a request', async (t) => {
  const { state, port } = await startEcho(t);
  const hidden = post('/busy', 'hidden');
  const chunked = `POST /other HTTP/1.1\r\n${host}${key}transfer-encoding: chunked\r\n\r\n${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`;
  const requests = [
    post('/busy', 'a'),
    post('/other', 'b'),
    post('/slow', 'c'),
    post('/other', hidden),
    post('/busy', hidden),
    `GET /other HTTP/1.1\r\n${host}${key}\r\n`,
    chunked,
  ];
  const bodies = [
    'POST /busy a',
    'POST /other b',
    'POST /slow c',
    `POST /other ${hidden}`,
    `POST /busy ${hidden}`,
    'GET /other ',
    `POST /other ${hidden}`,
  ];
  const step = fc.record({
    request: fc.nat({ max: requests.length - 1 }),
    cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3 }),
    waits: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 8 }), async (steps) => {
      const { socket, next, rest } = open(t, port);
      const expected: (string | undefined)[] = [];
      const check = async () => {
        for (const wanted of expected.splice(0)) {
          const { status, body } = await next();
          if (status === 503 && body === 'busy') assert.match(wanted ?? '', /^POST \/busy/);
          else assert.equal(body, wanted);
        }
      };
      for (const { request, cuts, waits } of steps) {
        const text = requests[request] ?? '';
        // Ends of lines and of the head are where reading could go wrong: some of the cuts fall right there.
        const ends = cuts
          .map((share, index) => (index === 0 ? text.indexOf(hidden) : Math.floor(share * text.length)))
          .filter((end) => end > 0);
        let from = 0;
        for (const end of [...ends.sort((left, right) => left - right), text.length]) {
          socket.write(text.slice(from, end));
          from = end;
          await setImmediate();
        }
        expected.push(bodies[request]);
        if (waits) await check();
      }
      await check();
      assert.equal(rest(), '');
      socket.destroy();
    }),
    { numRuns: 150 },
  );
  assert.ok(state.refusedEarly > 0 && state.parsed > state.refusedEarly);
});
