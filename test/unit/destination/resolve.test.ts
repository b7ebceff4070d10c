import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import dns from 'node:dns/promises';
import { once } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import { test } from 'node:test';
import { createGuard } from '../../../src/destination/guard.ts';
import { createDnsResolve } from '../../../src/destination/resolve.ts';

/**
 * A DNS server that knows the addresses of some names, and says of others that they do not exist. It says nothing of `silent` names, nothing
 * of the IPv6 addresses of `old` ones, and has to ask others about `slow` ones first, for a second and a half.
 */
async function serveNames(records: Record<string, { four?: number[]; six?: number[] }>): Promise<{ address: string; close(): void }> {
  const socket = createSocket('udp4');
  let begun: number | undefined;
  socket.on('message', (query, client) => {
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length));
      at += length + 1;
    }
    const name = labels.join('.').toLowerCase();
    const type = query.readUInt16BE(at + 1);
    if (name.includes('silent') || (name.includes('old') && type !== 1)) return;
    if (name.includes('slow')) {
      begun ??= performance.now();
      if (performance.now() - begun < 1_500) return;
    }
    const data = type === 1 ? records[name]?.four : records[name]?.six;
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(records[name] === undefined ? 0x8183 : 0x8180, 2);
    head.writeUInt16BE(data === undefined ? 0 : 1, 6);
    head.writeUInt16BE(0, 10);
    const answer = data === undefined ? [] : [0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length, ...data];
    socket.send(Buffer.concat([head, query.subarray(12, at + 5), Buffer.from(answer)]), client.port, client.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return { address: `127.0.0.1:${socket.address().port}`, close: () => socket.close() };
}

test('names whose servers do not answer delay no other, and all addresses of a name are returned', async (t) => {
  const six = [0x20, 0x01, 0x48, 0x60, 0x48, 0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0x88, 0x88];
  const server = await serveNames({ 'both.test': { four: [8, 8, 8, 8], six }, 'four.test': { four: [8, 8, 4, 4] }, 'none.test': {} });
  t.after(() => server.close());
  const resolve = createDnsResolve({ servers: [server.address], timeoutMs: 500 });
  let given = 0;
  const silent = Array.from({ length: 100 }, (_, index) =>
    resolve(`silent${index}.test`).catch((error: NodeJS.ErrnoException) => {
      given += 1;
      return error.code;
    }),
  );
  assert.deepEqual(await resolve('both.test'), [
    { address: '8.8.8.8', family: 4 },
    { address: '2001:4860:4860::8888', family: 6 },
  ]);
  assert.deepEqual(await resolve('four.test'), [{ address: '8.8.4.4', family: 4 }]);
  await assert.rejects(resolve('unknown.test'), { code: 'ENOTFOUND' });
  await assert.rejects(resolve('none.test'), { code: 'ENODATA' });
  assert.equal(given, 0, 'the others still wait');
  assert.deepEqual(new Set(await Promise.all(silent)), new Set(['ETIMEOUT']));
});

const known = { four: [8, 8, 8, 8] };
const found = [{ address: '8.8.8.8', family: 4 }];

test('a name is found whose servers take their time, though others were found at once', async (t) => {
  const server = await serveNames({ 'quick.test': known, 'slow.test': known });
  t.after(() => server.close());
  const resolve = createDnsResolve({ servers: [server.address] });
  for (const name of ['quick.test', 'quick.test', 'quick.test', 'slow.test']) assert.deepEqual(await resolve(name), found, name);
});

test('a name of whose IPv6 addresses nothing is told is found before a resolver that is half as patient gives up', async (t) => {
  const server = await serveNames({ 'old.test': known });
  t.after(() => server.close());
  const [patient, impatient] = [1_000, 500].map((timeoutMs) => createDnsResolve({ servers: [server.address], timeoutMs }));
  assert.ok(patient && impatient);
  const givenUp = assert.rejects(impatient('silent.test'), { code: 'ETIMEOUT' });
  assert.deepEqual(await Promise.race([patient('old.test'), givenUp]), found);
  await givenUp;
});

test('where only public addresses are allowed, names are not looked up by the system, unless it has no DNS server', async (t) => {
  const lookedUp = t.mock.method(dns, 'lookup', async () => [{ address: '8.8.8.8', family: 4 }]);
  syncBuiltinESMExports();
  t.after(() => {
    lookedUp.mock.restore();
    syncBuiltinESMExports();
  });
  const nobody = await serveNames({});
  nobody.close();
  assert.deepEqual(await createDnsResolve({ servers: [nobody.address] })('public.test'), [{ address: '8.8.8.8', family: 4 }]);
  assert.equal(lookedUp.mock.callCount(), 1);
  t.mock.method(dns.Resolver.prototype, 'resolve4', async () => ['127.0.0.1']);
  t.mock.method(dns.Resolver.prototype, 'resolve6', async () => []);
  await assert.rejects(createGuard({ allowPrivate: false }).check('https://public.test/'), { code: 'destination_refused' });
  assert.equal(lookedUp.mock.callCount(), 1);
});
