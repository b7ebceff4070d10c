import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { createGuard } from '../../../src/destination/guard.ts';
import { ServiceError } from '../../../src/errors.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { type LocalServer, serveLocally } from '../../support/local-server.ts';

async function serve(listener: RequestListener): Promise<LocalServer> {
  return closeAfterTest(await serveLocally(listener));
}

test('DNS that answers a public address at the check and a private one at the connect reaches nothing', async () => {
  const target = await serve((_request, response) => response.end('secret'));
  const answers = [[{ address: '93.184.215.14', family: 4 }], [{ address: '127.0.0.1', family: 4 }]];
  const policy = { allowPrivate: false, resolve: async () => answers.shift() ?? [] };
  const url = `https://rebind.example:${target.port}/`;
  await createGuard(policy).check(url);
  await assert.rejects(createGuard(policy).fetch(url), (error) => error instanceof ServiceError && /loopback/.test(error.message));
  assert.equal(answers.length, 0);
  assert.equal(target.connections(), 0);
});

test('the socket goes to the address that was checked: a connect resolves once', async () => {
  const target = await serve((request, response) => response.end(request.headers.host));
  let resolved = 0;
  const resolve = async () => {
    resolved += 1;
    return [{ address: '127.0.0.1', family: 4 }];
  };
  const response = await createGuard({ allowPrivate: true, resolve }).fetch(`http://pinned.example:${target.port}/`);
  assert.equal(await response.text(), `pinned.example:${target.port}`);
  assert.equal(resolved, 1);
});

test('TLS verifies the name, not the address that the socket is pinned to', async () => {
  const fixture = (name: string) => readFileSync(new URL(`../../fixtures/tls/${name}`, import.meta.url), 'utf8');
  const certificate = fixture('pinned.example.pem');
  const before = getCACertificates('default');
  setDefaultCACertificates([certificate]);
  const names: unknown[] = [];
  const server = createServer({ cert: certificate, key: fixture('pinned.example.key.pem') }, (_request, response) =>
    response.end('private'),
  );
  server.on('secureConnection', (socket) => names.push(socket.servername));
  server.listen(0, '127.0.0.1');
  closeAfterTest(server);
  await once(server, 'listening');
  const address = server.address();
  assert(typeof address === 'object' && address !== null);
  const guarded = createGuard({ allowPrivate: true, resolve: async () => [{ address: '127.0.0.1', family: 4 }] }).fetch;
  const response = await guarded(`https://pinned.example:${address.port}/`);
  assert.equal(await response.text(), 'private');
  assert.deepEqual(names, ['pinned.example']);
  await assert.rejects(guarded(`https://other.example:${address.port}/`), /altnames/);
  await assert.rejects(guarded(`https://127.0.0.1:${address.port}/`), /altnames/);
  setDefaultCACertificates(before);
});

test('a kept-alive connection is used again; a new one is checked again', async () => {
  const target = await serve((_request, response) => response.end('ok'));
  const resolved: string[] = [];
  const resolve = async () => {
    const address = resolved.length === 0 ? '127.0.0.1' : '169.254.169.254';
    resolved.push(address);
    return [{ address, family: 4 }];
  };
  const guarded = createGuard({ allowPrivate: true, resolve }).fetch;
  const url = `http://pooled.example:${target.port}/`;
  assert.equal(await (await guarded(url)).text(), 'ok');
  await setImmediate();
  assert.equal(await (await guarded(url)).text(), 'ok');
  await setImmediate();
  assert.equal(target.connections(), 1);
  assert.equal(resolved.length, 1);
  const both = await Promise.allSettled([guarded(url).then((response) => response.text()), guarded(url)]);
  assert.deepEqual(
    both.map((result) => result.status),
    ['fulfilled', 'rejected'],
  );
  assert.equal(target.connections(), 1);
});

test('a name that has no address, or that nobody can resolve, fails at once and says why', async () => {
  const call = (resolve: () => Promise<never[]>) => createGuard({ allowPrivate: true, resolve }).fetch('http://nowhere.example/');
  await assert.rejects(
    call(async () => []),
    /nowhere\.example has no address/,
  );
  const failure = new Error('EAI_AGAIN');
  await assert.rejects(
    call(() => Promise.reject(failure)),
    failure,
  );
});

test('two policies never share a connection', async () => {
  const target = await serve((_request, response) => response.end('ok'));
  const lenient = createGuard({ allowPrivate: true }).fetch;
  const strict = createGuard({ allowPrivate: false }).fetch;
  assert.equal(await (await lenient(`${target.origin}/`)).text(), 'ok');
  await assert.rejects(strict(`${target.origin}/`), ServiceError);
  await assert.rejects(strict(`https://127.0.0.1:${target.port}/`), ServiceError);
});

test('an exempt origin passes; another port of the same host does not', async () => {
  const target = await serve((_request, response) => response.end('peer'));
  const other = await serve((_request, response) => response.end('other'));
  const guarded = createGuard({ allowPrivate: false, exemptOrigins: [`${target.origin}/some/path`] }).fetch;
  assert.equal(await (await guarded(`${target.origin}/v1/gateway/deliveries`)).text(), 'peer');
  await assert.rejects(guarded(other.origin), ServiceError);
  assert.equal(other.connections(), 0);
  const withPassword = new URL(target.origin);
  withPassword.password = 'secret';
  await assert.rejects(guarded(withPassword), ServiceError, 'the rules on the form of a URL hold for everyone');
});
