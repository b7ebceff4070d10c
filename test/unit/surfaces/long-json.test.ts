import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { type TestContext, test } from 'node:test';
import fastify from 'fastify';
import { ServiceError } from '../../../src/errors.ts';
import { failureBody } from '../../../src/surfaces/shared/errors.ts';
import { sendLongJson } from '../../../src/surfaces/shared/streams/long-json.ts';
import { CutShort } from '../../../src/turn/collect.ts';

/** A route that answers when told to, with the clock in the test's hand. */
async function serveLate(context: TestContext) {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const logged: string[] = [];
  const server = fastify({ logger: { level: 'error', stream: { write: (line: string) => void logged.push(line) } } });
  const asked = Promise.withResolvers<void>();
  server.get('/', (_request, reply) => {
    reply.header('x-request-id', 'rid_1');
    const sent = sendLongJson(reply, promise, failureBody);
    asked.resolve();
    return sent;
  });
  await server.listen({ port: 0 });
  context.after(() => server.close());
  const address = server.server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  context.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  const sent = request({ port, path: '/', agent: false });
  sent.end();
  await asked.promise;
  return { sent, logged, resolve, reject, tick: (ms: number) => context.mock.timers.tick(ms) };
}

test('an answer within 30 s is plain', async (context) => {
  const { sent, resolve, tick } = await serveLate(context);
  tick(29_999);
  resolve({ ok: true });
  const [response] = await once(sent, 'response');
  assert.equal(response.statusCode, 200);
  assert.equal((await response.toArray()).join(''), '{"ok":true}');
});

test('after 30 s comes 200 and a space, one more every 10 s, then the JSON', async (context) => {
  const { sent, resolve, tick } = await serveLate(context);
  tick(30_000);
  const [response] = await once(sent, 'response');
  assert.equal(response.statusCode, 200);
  assert.equal(response.headers['content-type'], 'application/json; charset=utf-8');
  assert.equal(response.headers['x-request-id'], 'rid_1');
  tick(10_000);
  tick(10_000);
  resolve({ ok: true });
  const text = (await response.toArray()).join('');
  assert.equal(text, '   {"ok":true}');
  assert.deepEqual(JSON.parse(text), { ok: true });
});

test('a failure after that is in the body, as its status would have carried it', async (context) => {
  const { sent, logged, reject, tick } = await serveLate(context);
  tick(30_000);
  const [response] = await once(sent, 'response');
  reject(new ServiceError('upstream', 'It broke.', { code: 'broken_stream' }));
  assert.deepEqual(JSON.parse((await response.toArray()).join('')), { detail: { error: 'broken_stream', message: 'It broke.' } });
  assert.deepEqual(logged, []);
});

test('a late failure that is a bug of ours says no more than that, and has a line in the log', async (context) => {
  const { sent, logged, reject, tick } = await serveLate(context);
  tick(30_000);
  const [response] = await once(sent, 'response');
  reject(new TypeError('undefined is not a function'));
  assert.equal((await response.toArray()).join(''), ' {"detail":"Internal error"}');
  assert.match(logged.join(''), /undefined is not a function/);
});

test('a turn that goes on without this process breaks the answer off after that: a whole body would pass for its outcome', async (context) => {
  const { sent, logged, reject, tick } = await serveLate(context);
  tick(30_000);
  const [response] = await once(sent, 'response');
  reject(new CutShort());
  await assert.rejects(response.toArray(), { code: 'ECONNRESET' });
  assert.deepEqual(logged, []);
});
