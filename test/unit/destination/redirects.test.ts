import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { createGuard } from '../../../src/destination/guard.ts';
import { ServiceError } from '../../../src/errors.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { type LocalServer, serveLocally } from '../../support/local-server.ts';

async function serve(listener: RequestListener): Promise<LocalServer> {
  return closeAfterTest(await serveLocally(listener));
}

test('a redirect is an answer, not followed', async () => {
  const target = await serve((_request, response) => response.writeHead(302, { location: '/elsewhere' }).end());
  const response = await createGuard({ allowPrivate: true }).fetch(`${target.origin}/`);
  assert.equal(response.status, 302);
  assert.equal(response.headers.get('location'), '/elsewhere');
});

test('where redirects are followed, each hop is checked', async () => {
  const inside = await serve((_request, response) => response.end('secret'));
  const outside = await serve((_request, response) => response.writeHead(302, { location: `https://127.0.0.1:${inside.port}/` }).end());
  const guarded = createGuard({ allowPrivate: false, exemptOrigins: [outside.origin], maxRedirects: 5 }).fetch;
  await assert.rejects(guarded(outside.origin), ServiceError);
  assert.equal(inside.connections(), 0);
});

test('a followed redirect takes only harmless headers to another origin, and none of a body that it leaves behind', async () => {
  const harmless = { accept: 'text/*', 'accept-language': 'fr', 'user-agent': 'me', range: 'bytes=0-9' };
  const harmlessOfBody = { 'content-type': 'text/plain', 'content-language': 'fr' };
  const otherOfBody = { 'content-encoding': 'identity', 'content-location': '/a' };
  const headers = { ...harmless, ...harmlessOfBody, ...otherOfBody, authorization: 'Bearer x', cookie: 'a=1', 'x-api-key': 'k' };
  const record: RequestListener = (request, response) => {
    const arrived = Object.entries(request.headers).filter(([name]) => Object.hasOwn(headers, name));
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify([request.method, Object.fromEntries(arrived)]));
  };
  const second = await serve(record);
  const first = await serve((request, response) => {
    if (request.url === '/same') return record(request, response);
    const status = request.url === '/303' ? 303 : 307;
    response.writeHead(status, { location: request.url === '/here' ? '/same' : `${second.origin}/` }).end();
  });
  const guarded = createGuard({ allowPrivate: true, maxRedirects: 5 }).fetch;
  const send = async (path: string) => (await guarded(`${first.origin}${path}`, { method: 'POST', headers, body: 'hello' })).json();
  assert.deepEqual(await send('/303'), ['GET', harmless]);
  assert.deepEqual(await send('/307'), ['POST', { ...harmless, ...harmlessOfBody }]);
  assert.deepEqual(await send('/here'), ['POST', headers]);
});

test('each status changes the method as it does in fetch, and each hop begins at the one before it', async () => {
  const target = await serve(async (request, response) => {
    const hops = new Map([
      ['/first', '/then/second'],
      ['/then/second', 'third'],
    ]);
    const status = Number(request.headers['x-status']);
    const location = hops.get(request.url ?? '');
    if (location !== undefined) return response.writeHead(status, { location }).end();
    const sent = await text(request);
    response.writeHead(200, { 'x-seen': `${request.method} ${request.url} ${sent}` }).end();
  });
  const guarded = createGuard({ allowPrivate: true, maxRedirects: 2 }).fetch;
  const cases: [status: number, method: string, seen: string][] = [
    [301, 'POST', 'GET /then/third '],
    [302, 'POST', 'GET /then/third '],
    [303, 'POST', 'GET /then/third '],
    [303, 'PUT', 'GET /then/third '],
    [303, 'HEAD', 'HEAD /then/third '],
    [301, 'PUT', 'PUT /then/third hello'],
    [302, 'DELETE', 'DELETE /then/third hello'],
    [307, 'POST', 'POST /then/third hello'],
    [308, 'POST', 'POST /then/third hello'],
  ];
  for (const [status, method, seen] of cases) {
    const body = method === 'HEAD' ? null : status === 308 ? Buffer.from('hello') : 'hello';
    const response = await guarded(`${target.origin}/first`, { method, headers: { 'x-status': `${status}` }, body });
    assert.equal(response.headers.get('x-seen')?.trimEnd(), seen.trimEnd(), `${status} after ${method}`);
  }
  const created = await guarded(`${target.origin}/first`, { method: 'POST', headers: { 'x-status': '201' } });
  assert.equal(created.status, 201, 'where something was created is no redirect');
});

test('a body that is gone once it was sent is not sent on empty', async () => {
  const target = await serve((request, response) => {
    request.resume().on('end', () => response.writeHead(307, { location: '/again' }).end());
  });
  const body = new URLSearchParams({ a: '1' });
  const call = createGuard({ allowPrivate: true, maxRedirects: 1 }).fetch(target.origin, { method: 'POST', body });
  await assert.rejects(call, /cannot be sent again/);
});

test('a redirect loop ends, and no answer on the way is left open', async () => {
  const closed: Promise<unknown>[] = [];
  const target = await serve((_request, response) => {
    closed.push(once(response, 'close'));
    response.writeHead(302, { location: '/again' }).write('and a word that does not end');
  });
  await assert.rejects(createGuard({ allowPrivate: true, maxRedirects: 3 }).fetch(target.origin), /more than 3 times/);
  assert.equal(closed.length, 4);
  await Promise.all(closed);
});
