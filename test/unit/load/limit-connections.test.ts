import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { test } from 'node:test';
import { connectionsFor, limitConnections } from '../../../src/load/limit-connections.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { until } from '../../support/until.ts';

test('a connection beyond the limit is closed and warned of, and one that closes makes room for another', async (t) => {
  const lines: string[] = [];
  const server = createServer();
  limitConnections(server, createLogger('warn', { write: (line) => void lines.push(line) }), 2);
  let closed = 0;
  server.on('connection', (socket) => socket.on('close', () => (closed += 1)).resume());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const open = () => connect(port, '127.0.0.1').on('error', () => {});
  const kept = [open(), open()];
  t.after(() => {
    server.close();
    for (const socket of kept) socket.destroy();
  });
  await Promise.all(kept.map((socket) => once(socket, 'connect')));
  for (let count = 1; count <= 3; count += 1) await new Promise((resolve) => open().on('close', resolve));
  assert.equal(kept.filter((socket) => socket.readyState === 'open').length, 2);
  assert.equal(lines.length, 1);
  assert.match(lines.join(), /"level":40.*2 connections are open.*raise the limit of open files/);

  kept.shift()?.destroy();
  await until(async () => closed === 4);
  const next = open();
  kept.push(next);
  await once(next, 'connect');
  next.write('still there');
  await assert.rejects(once(next, 'close', { signal: AbortSignal.timeout(50) }), { name: 'AbortError' });
});

test('connections leave descriptors for everything else, however few there are', () => {
  assert.deepEqual([256, 1_024, 4_096, 1_048_576].map(connectionsFor), [32, 256, 3_072, 786_432]);
});

test('the alert on file descriptors comes before connections are dropped', () => {
  const rules = readFileSync(new URL('../../../deploy/prometheus-rules.yaml', import.meta.url), 'utf8');
  const share = Number(/process_open_fds.* > (0\.\d+)$/m.exec(rules)?.[1]);
  for (const limit of [4_096, 65_536, 1_048_576]) assert.ok(connectionsFor(limit) > share * limit, `${limit}`);
});
