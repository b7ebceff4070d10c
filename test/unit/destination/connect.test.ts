import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { checkDestination, createGuardedFetch } from '../../../src/destination/guard.ts';
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
  await checkDestination(url, policy);
  await assert.rejects(createGuardedFetch(policy)(url), (error) => error instanceof ServiceError && /loopback/.test(error.message));
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
  const response = await createGuardedFetch({ allowPrivate: true, resolve })(`http://pinned.example:${target.port}/`);
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
  const guarded = createGuardedFetch({ allowPrivate: true, resolve: async () => [{ address: '127.0.0.1', family: 4 }] });
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
  const guarded = createGuardedFetch({ allowPrivate: true, resolve });
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

test('two policies never share a connection', async () => {
  const target = await serve((_request, response) => response.end('ok'));
  const lenient = createGuardedFetch({ allowPrivate: true });
  const strict = createGuardedFetch({ allowPrivate: false });
  assert.equal(await (await lenient(`${target.origin}/`)).text(), 'ok');
  await assert.rejects(strict(`${target.origin}/`), ServiceError);
  await assert.rejects(strict(`https://127.0.0.1:${target.port}/`), ServiceError);
});

test('an exempt origin passes; another port of the same host does not', async () => {
  const target = await serve((_request, response) => response.end('peer'));
  const other = await serve((_request, response) => response.end('other'));
  const guarded = createGuardedFetch({ allowPrivate: false, exemptOrigins: [`${target.origin}/some/path`] });
  assert.equal(await (await guarded(`${target.origin}/v1/gateway/deliveries`)).text(), 'peer');
  await assert.rejects(guarded(other.origin), ServiceError);
  assert.equal(other.connections(), 0);
});

test('a redirect is an answer, not followed', async () => {
  const target = await serve((_request, response) => response.writeHead(302, { location: '/elsewhere' }).end());
  const response = await createGuardedFetch({ allowPrivate: true })(`${target.origin}/`);
  assert.equal(response.status, 302);
  assert.equal(response.headers.get('location'), '/elsewhere');
});

test('where redirects are followed, each hop is checked', async () => {
  const inside = await serve((_request, response) => response.end('secret'));
  const outside = await serve((_request, response) => response.writeHead(302, { location: `https://127.0.0.1:${inside.port}/` }).end());
  const guarded = createGuardedFetch({ allowPrivate: false, exemptOrigins: [outside.origin], maxRedirects: 5 });
  await assert.rejects(guarded(outside.origin), ServiceError);
  assert.equal(inside.connections(), 0);
});

test('a followed redirect leaves credentials behind at another origin and turns POST into GET', async () => {
  const seen: unknown[] = [];
  const record: RequestListener = (request, response) => {
    seen.push([request.method, request.headers.authorization, request.headers['content-type']]);
    response.end('done');
  };
  const second = await serve(record);
  const first = await serve((request, response) => {
    if (request.url === '/same') return record(request, response);
    response.writeHead(request.url === '/' ? 303 : 307, { location: request.url === '/' ? `${second.origin}/` : '/same' }).end();
  });
  const guarded = createGuardedFetch({ allowPrivate: true, maxRedirects: 5 });
  const init = { method: 'POST', headers: { authorization: 'Bearer x', 'content-type': 'text/plain' }, body: 'hello' };
  assert.equal(await (await guarded(`${first.origin}/`, init)).text(), 'done');
  assert.equal(await (await guarded(`${first.origin}/keep`, init)).text(), 'done');
  assert.deepEqual(seen, [
    ['GET', undefined, undefined],
    ['POST', 'Bearer x', 'text/plain'],
  ]);
});

test('a redirect loop ends', async () => {
  const target = await serve((_request, response) => response.writeHead(302, { location: '/again' }).end());
  await assert.rejects(createGuardedFetch({ allowPrivate: true, maxRedirects: 3 })(target.origin), /more than 3 times/);
});

test('it sends and reads what fetch would: body, headers, status, compression, no body', async () => {
  const target = await serve((request, response) => {
    if (request.url === '/empty') return response.writeHead(204).end();
    if (request.url === '/gzip') return response.writeHead(200, { 'content-encoding': 'GZip' }).end(gzipSync('squeezed'));
    response.writeHead(418, { 'x-method': request.method, 'x-type': request.headers['content-type'], 'set-cookie': ['a=1', 'b=2'] });
    request.pipe(response);
  });
  const guarded = createGuardedFetch({ allowPrivate: true });
  const teapot = await guarded(new URL('/', target.origin), { method: 'put', body: new URLSearchParams({ a: 'ü' }) });
  assert.equal(teapot.status, 418);
  assert.equal(teapot.headers.get('x-method'), 'PUT');
  assert.match(teapot.headers.get('x-type') ?? '', /urlencoded/);
  assert.deepEqual(teapot.headers.getSetCookie(), ['a=1', 'b=2']);
  assert.equal(await teapot.text(), 'a=%C3%BC');
  assert.equal((await guarded(`${target.origin}/empty`)).status, 204);
  assert.equal(await (await guarded(`${target.origin}/gzip`)).text(), 'squeezed');
  const head = await guarded(`${target.origin}/gzip`, { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers.get('content-encoding'), await head.text()], [200, 'GZip', ''], 'as it came, and no body');
  const request = new Request(`${target.origin}/`, { method: 'POST', body: 'from a request' });
  assert.equal(await (await guarded(request)).text(), 'from a request');
});

test('aborting ends a call that waits and a body that streams, with the reason given', async () => {
  const target = await serve((request, response) => {
    if (request.url === '/stream') response.write('first');
  });
  const guarded = createGuardedFetch({ allowPrivate: true });
  const waiting = new AbortController();
  const call = guarded(`${target.origin}/never`, { signal: waiting.signal });
  const reason = new Error('stopped by hand');
  process.nextTick(() => waiting.abort(reason));
  await assert.rejects(call, reason);
  await assert.rejects(guarded(`${target.origin}/never`, { signal: waiting.signal }), reason);

  const streaming = new AbortController();
  const response = await guarded(`${target.origin}/stream`, { signal: streaming.signal });
  const reader = response.body?.getReader();
  assert.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), 'first');
  streaming.abort(reason);
  await assert.rejects(async () => reader?.read(), reason);
});

test('pieces that come fast are gathered, none is lost, and the first waits for nothing', async () => {
  const words = Array.from({ length: 200 }, (_, index) => `word ${index}; `);
  let goOn = () => {};
  const target = await serve(async (_request, response) => {
    response.write('first; ');
    await new Promise<void>((resolve) => {
      goOn = resolve;
    });
    for (const word of words) {
      response.write(word);
      await setImmediate();
    }
    response.end();
  });
  const response = await createGuardedFetch({ allowPrivate: true })(target.origin);
  const pieces: string[] = [];
  for await (const piece of response.body ?? []) {
    if (pieces.push(Buffer.from(piece).toString()) === 1) goOn();
  }
  assert.equal(pieces[0], 'first; ');
  assert.equal(pieces.slice(1).join(''), words.join(''));
  assert(pieces.length < words.length / 2, `${words.length} pieces were passed on as ${pieces.length}`);
});

test('many answers at once are gathered each for itself, also where some are no longer wanted', async () => {
  const target = await serve(async (request, response) => {
    for (let index = 0; index < 40; index += 1) {
      response.write(`${request.url} ${index}; `);
      await setTimeout(5);
    }
    response.end();
  });
  const guarded = createGuardedFetch({ allowPrivate: true });
  const answers = Array.from({ length: 50 }, async (_, answer) => {
    const { body } = await guarded(`${target.origin}/${answer}`);
    const begun = performance.now();
    const pieces: string[] = [];
    for await (const piece of body ?? []) {
      pieces.push(Buffer.from(piece).toString());
      if (answer % 10 === 0 && pieces.length === 4) return;
    }
    assert.equal(pieces.join(''), Array.from({ length: 40 }, (_, index) => `/${answer} ${index}; `).join(''));
    // At first after as long as the answer has taken so far, then every 50 ms, however slow the machine is.
    const most = 10 + (performance.now() - begun) / 50;
    assert(pieces.length < most, `40 pieces were passed on as ${pieces.length}`);
  });
  await Promise.all(answers);
});

test('a stream that breaks off is an error, not an end', async () => {
  const target = await serve((_request, response) => {
    response.write('half');
    response.write('way', () => response.destroy());
  });
  const response = await createGuardedFetch({ allowPrivate: true })(target.origin);
  await assert.rejects(response.text());
});

test('a reader that is slow holds the sender back', async () => {
  let sent = 0;
  const chunk = Buffer.alloc(64 * 1024);
  const target = await serve((_request, response) => {
    const more = () => {
      while (sent < 2_000 && response.write(chunk)) sent += 1;
      if (sent < 2_000) response.once('drain', more);
    };
    more();
  });
  const response = await createGuardedFetch({ allowPrivate: true })(target.origin);
  const reader = response.body?.getReader();
  await reader?.read();
  await setTimeout(200);
  assert(sent < 1_000, `${sent} chunks of 64 KiB were taken from an unread response`);
  await reader?.cancel();
});
