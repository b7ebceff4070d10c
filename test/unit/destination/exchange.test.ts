import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import type { RequestListener } from 'node:http';
import { test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { Pool } from 'undici';
import { createGuard } from '../../../src/destination/guard.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { type LocalServer, serveLocally } from '../../support/local-server.ts';
import { until } from '../../support/until.ts';

async function serve(listener: RequestListener): Promise<LocalServer> {
  return closeAfterTest(await serveLocally(listener));
}

test('an exchange sends and reads what fetch would: body, headers, status, compression, no body', async () => {
  const target = await serve((request, response) => {
    const status = Number(request.url?.slice(1));
    if (status > 0) return response.writeHead(status).end();
    if (request.url === '/sent?a=1&b') return response.end(JSON.stringify(request.headers));
    if (request.url === '/hints') {
      response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      return response.end('after the hints');
    }
    if (request.url === '/gzip') return response.writeHead(200, { 'content-encoding': 'GZip' }).end(gzipSync('squeezed'));
    response.writeHead(418, { 'x-method': request.method, 'x-type': request.headers['content-type'], 'set-cookie': ['a=1', 'b=2'] });
    request.pipe(response);
  });
  const guarded = createGuard({ allowPrivate: true }).fetch;
  const teapot = await guarded(new URL('/', target.origin), { method: 'put', body: new URLSearchParams({ a: 'ü' }) });
  assert.equal(teapot.status, 418);
  assert.equal(teapot.headers.get('x-method'), 'PUT');
  assert.match(teapot.headers.get('x-type') ?? '', /urlencoded/);
  assert.deepEqual(teapot.headers.getSetCookie(), ['a=1', 'b=2']);
  assert.equal(await teapot.text(), 'a=%C3%BC');
  for (const status of [204, 205, 304]) assert.equal((await guarded(`${target.origin}/${status}`)).status, status);
  assert.equal(await (await guarded(`${target.origin}/hints`)).text(), 'after the hints');
  const sent = JSON.parse(await (await guarded(`${target.origin}/sent?a=1&b`)).text());
  assert.deepEqual([sent.accept, sent['user-agent']], ['*/*', 'parley']);
  const gzip = await guarded(`${target.origin}/gzip`);
  assert.equal(await gzip.text(), 'squeezed');
  const described = ['content-encoding', 'content-length'].map((name) => gzip.headers.get(name));
  assert.deepEqual(described, [null, null], 'what described the compressed body');
  const head = await guarded(`${target.origin}/gzip`, { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers.get('content-encoding'), await head.text()], [200, 'GZip', ''], 'as it came, and no body');
  const request = new Request(`${target.origin}/`, { method: 'POST', body: 'from a request' });
  assert.equal(await (await guarded(request)).text(), 'from a request');
});

test('an answer that is asked for without a response reads the same', async () => {
  const target = await serve((request, response) => {
    if (request.url === '/gzip') return response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('squeezed'));
    response.writeHead(request.url === '/none' ? 204 : 999, { 'x-twice': ['a', 'b'] }).end(request.url === '/none' ? undefined : 'odd');
  });
  const { ask } = createGuard({ allowPrivate: true });
  const read = async (path: string) => {
    const { status, headers, body } = await ask(target.origin + path, {});
    const reader = body?.getReader();
    let text = '';
    for (let chunk = await reader?.read(); chunk?.done === false; chunk = await reader?.read()) text += Buffer.from(chunk.value);
    return [status, headers.get('content-encoding'), headers.get('x-twice'), text];
  };
  assert.deepEqual(await read('/gzip'), [200, null, null, 'squeezed']);
  assert.deepEqual(await read('/none'), [204, null, 'a, b', '']);
  assert.deepEqual(await read('/odd'), [999, null, 'a, b', 'odd'], 'a status that no response can have');
});

test('aborting ends a call that waits and a body that streams, with the reason given, and their connections', async () => {
  const closed: Promise<unknown>[] = [];
  const target = await serve((request, response) => {
    closed.push(once(response, 'close'));
    if (request.url !== '/stream') return;
    response.write('first');
    setTimeout(50).then(() => response.write('second'));
  });
  const guarded = createGuard({ allowPrivate: true }).fetch;
  const waiting = new AbortController();
  const call = guarded(`${target.origin}/never`, { signal: waiting.signal });
  const reason = new Error('stopped by hand');
  process.nextTick(() => waiting.abort(reason));
  await assert.rejects(call, reason);

  const streaming = new AbortController();
  const response = await guarded(`${target.origin}/stream`, { signal: streaming.signal });
  const reader = response.body?.getReader();
  assert.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), 'first');
  // The second has come, and is not handed on any more.
  await setTimeout(200);
  streaming.abort(reason);
  await assert.rejects(async () => reader?.read(), reason);
  await Promise.all(closed);
});

test('a call that is aborted before its connection is there is not waited for, and is never sent', async () => {
  const seen: unknown[] = [];
  const target = await serve((request, response) => {
    seen.push(request.url);
    response.end('ok');
  });
  let answer = () => {};
  const resolved = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const resolve = async () => {
    await resolved;
    return [{ address: '127.0.0.1', family: 4 }];
  };
  const guarded = createGuard({ allowPrivate: true, resolve }).fetch;
  const origin = `http://slow.example:${target.port}`;
  const controller = new AbortController();
  const call = guarded(`${origin}/aborted`, { method: 'POST', body: 'hello', signal: controller.signal });
  const reason = new Error('stopped by hand');
  // Only then is it under way: what sends it is loaded first.
  await setTimeout(20);
  controller.abort(reason);
  await assert.rejects(call, reason);
  const next = guarded(`${origin}/next`);
  answer();
  assert.equal(await (await next).text(), 'ok');
  assert.deepEqual(seen, ['/next']);
  const before = target.connections();
  await assert.rejects(guarded(`${target.origin}/late`, { signal: controller.signal }), reason);
  assert.equal(target.connections(), before, 'one that is aborted from the start does not connect');
});

test('a call that is over listens to its signal no more, however it ended', async () => {
  const target = await serve((request, response) => {
    if (request.url === '/broken') return response.write('half', () => response.destroy());
    response.write('some');
    if (request.url === '/whole') response.end();
  });
  const guarded = createGuard({ allowPrivate: true }).fetch;
  const { signal } = new AbortController();
  await (await guarded(`${target.origin}/whole`, { signal })).text();
  await assert.rejects((await guarded(`${target.origin}/broken`, { signal })).text());
  await (await guarded(`${target.origin}/endless`, { signal })).body?.cancel();
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('an answer that is no longer wanted, or that cannot be one, ends its connection', async () => {
  const closed: Promise<unknown>[] = [];
  const target = await serve((request, response) => {
    closed.push(once(response, 'close'));
    response.writeHead(request.url === '/odd' ? 999 : 200).write('and so on');
  });
  const guarded = createGuard({ allowPrivate: true }).fetch;
  await assert.rejects(guarded(`${target.origin}/odd`), RangeError);
  await (await guarded(target.origin)).body?.cancel();
  await Promise.all(closed);
  assert.equal(closed.length, 2);
});

test('a server that sends hints without end, and no answer, is left', async () => {
  const hints = 'HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n'.repeat(100);
  let isLeft = false;
  const target = await serve((_request, { socket }) => {
    const send = () => {
      while (!socket?.destroyed && socket?.write(hints));
    };
    socket?.on('drain', send).on('close', () => {
      isLeft = true;
    });
    send();
  });
  const guarded = createGuard({ allowPrivate: true }).fetch;
  await assert.rejects(guarded(target.origin, { signal: AbortSignal.timeout(5_000) }), /more than 100 hints/);
  await until(async () => isLeft);
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
  const response = await createGuard({ allowPrivate: true }).fetch(target.origin);
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
  const guarded = createGuard({ allowPrivate: true }).fetch;
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
  const response = await createGuard({ allowPrivate: true }).fetch(target.origin);
  await assert.rejects(response.text());
});

test('a reader that is slow holds the sender back', async () => {
  let sent = 0;
  const chunk = Buffer.alloc(64 * 1024);
  const target = await serve((_request, response) => {
    const more = () => {
      sent += 1;
      response.write(chunk);
      if (sent < 2_000) response.once('drain', more);
    };
    more();
  });
  const response = await createGuard({ allowPrivate: true }).fetch(target.origin);
  const reader = response.body?.getReader();
  for (let read = 0; read < 6; read += 1) {
    await reader?.read();
    await setTimeout(200);
    assert(sent < 500, `${sent} chunks of 64 KiB were taken from a response of which ${read + 1} chunks were read`);
  }
  await reader?.cancel();
});

test('nothing is kept of an origin whose answer was cut off', async (t) => {
  const target = await serve((_request, response) => void response.write('a beginning'));
  const close = t.mock.method(Pool.prototype, 'close');
  const closed = () => new Set(close.mock.calls.map((call) => call.this));
  const guarded = createGuard({ allowPrivate: true, resolve: async () => [{ address: '127.0.0.1', family: 4 }] }).fetch;
  const endings = [
    async (origin: string) => (await guarded(origin)).body?.cancel(),
    async (origin: string) => {
      const controller = new AbortController();
      const response = await guarded(origin, { signal: controller.signal });
      controller.abort(new Error('enough'));
      await assert.rejects(response.text(), /enough/);
    },
  ];
  for (const [index, end] of endings.entries()) {
    await end(`http://site-${index}.example:${target.port}`);
    await until(async () => closed().size === index + 1, 5_000, 'its pool closed');
  }
});

test('a body where none may be is not waited for', async () => {
  let open = 0;
  const target = await serve((_request, response) => {
    open += 1;
    response.on('close', () => {
      open -= 1;
    });
    response.socket?.write('HTTP/1.1 205 Reset Content\r\nContent-Length: 1000\r\n\r\nabc');
  });
  const answer = await createGuard({ allowPrivate: true }).fetch(target.origin);
  assert.deepEqual([answer.status, answer.body], [205, null]);
  await until(async () => open === 0, 3_000);
});
