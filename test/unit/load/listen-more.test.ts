import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextPass } from 'node:timers/promises';
import { listenMore } from '../../../src/load/listen-more.ts';

const count = 200;
const host = '127.0.0.1';
/** Elsewhere one address is for one socket. */
const skip = process.platform !== 'linux';

test('connections that come together are accepted within a few passes of the event loop', { skip }, async (t) => {
  const { server, port } = await listen(t);
  let accepted = 0;
  server.on('connection', () => {
    accepted += 1;
  });
  openConnections(t, port);
  let passes = 0;
  for (; accepted < count && passes < 10 * count; passes += 1) await nextPass();
  assert.equal(accepted, count);
  assert.ok(passes < count / 2, `${passes} passes for ${count} connections`);
});

test('a request that cannot be read is told to the server, by whichever socket it came', { skip }, async (t) => {
  const { server, port } = await listen(t);
  server.on('clientError', (_error, socket) => socket.end('HTTP/1.1 400 from the server\r\n\r\n'));
  const answers = openConnections(t, port).map(async (socket) => {
    socket.write('not HTTP\r\n\r\n');
    const [answer] = await once(socket.setEncoding('latin1'), 'data');
    return answer;
  });
  assert.deepEqual(new Set(await Promise.all(answers)), new Set(['HTTP/1.1 400 from the server\r\n\r\n']));
});

async function listen(t: TestContext): Promise<{ server: Server; port: number }> {
  const server = createServer().listen({ host, port: 0, reusePort: true });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const more = await listenMore(server, { host, port });
  t.after(() => {
    for (const listener of [server, ...more]) listener.close();
  });
  return { server, port };
}

function openConnections(t: TestContext, port: number): Socket[] {
  const sockets = Array.from({ length: count }, () => connect(port, host));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}
