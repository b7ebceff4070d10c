// `parley webhooks listen`: events of a server on this machine, passed on to a local port.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import Stripe from 'stripe';
import { startApp } from '../../support/app.ts';
import { serveLocally } from '../../support/local-server.ts';
import { until } from '../../support/until.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const app = await startApp({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
const command = join(import.meta.dirname, '../../../src/cli/main.ts');

test('events are passed on with their signature, and the endpoint is gone afterwards', async (t) => {
  const receiver = await startReceiver(t);
  const endpoints = async () => JSON.parse((await app.request('GET', '/api/webhook_endpoints')).text).webhook_endpoints;
  const listen = async () => startListening(t, await app.listen(), receiver.url);
  const { child, printed, exited } = await listen();
  const secret = /whsec_svc_\S+/.exec(printed())?.[0] ?? '';
  assert.deepEqual(
    (await endpoints()).map((endpoint: { event_types: string[] }) => endpoint.event_types),
    [['api_key.created']],
  );
  await app.request('POST', '/api/api_keys', { name: 'Event', scopes: [] });
  const [one] = await receiver.until((received) => received.length === 1);
  assert.equal(one?.body.data.name, 'Event');
  new Stripe('sk_test_unused').webhooks.constructEvent(one?.text ?? '', String(one?.headers['svc-signature']), secret);
  child.kill('SIGINT');
  await exited;
  assert.deepEqual(await endpoints(), []);

  const unread = await listen();
  unread.child.stdout.destroy();
  await app.request('POST', '/api/api_keys', { name: 'Unread', scopes: [] });
  assert.deepEqual(await unread.exited, [0, null]);
  assert.deepEqual(await endpoints(), [], 'also when the program that reads the output has ended');
});

test('what the program answers is printed, and the server is told 204: a 410 would disable the endpoint, and a failure be retried', async (t) => {
  const receiver = await startReceiver(t);
  const { child, printed, exited } = await startListening(t, await app.listen(), receiver.url);
  const printedAfter = async (name: string) => {
    const before = printed().length;
    await app.request('POST', '/api/api_keys', { name, scopes: [] });
    await until(async () => / -> .*\n/.test(printed().slice(before)));
    return printed().slice(before);
  };
  receiver.answer = 410;
  assert.match(await printedAfter('Gone'), /^api_key\.created \S+ -> 410\n$/);
  receiver.answer = (_request, response) => response.writeHead(307, { location: '/elsewhere' }).end();
  assert.match(await printedAfter('Moved'), / -> 307\n$/);
  assert.deepEqual(new Set(receiver.received.map(({ path }) => path)), new Set(['/hook']), 'it is not sent on to where a redirect points');
  receiver.answer = (_request, response) => void response.destroy();
  assert.match(await printedAfter('Cut'), / -> no answer from http:\/\/127\.0\.0\.1:\d+\/hook: UND_ERR_SOCKET\n$/);
  const [endpoint] = (await app.request('GET', '/api/webhook_endpoints')).body.webhook_endpoints;
  const answers = async () => {
    const { data } = (await app.request('GET', `/api/webhook_endpoints/${endpoint.id}/deliveries`)).body;
    return data.flatMap(({ attempts }: { attempts: { status: number }[] }) => attempts.map(({ status }) => status));
  };
  await until(async () => (await answers()).length === 3);
  assert.deepEqual([endpoint.enabled, await answers()], [true, [204, 204, 204]]);
  child.kill('SIGINT');
  await exited;
});

test('a Ctrl-C that comes twice, as under npm, removes the endpoint once', async (t) => {
  const server = await serveEndpoint(t);
  const { child, exited } = await startListening(t, server.origin, server.origin);
  child.kill('SIGINT');
  await until(async () => server.deletes.length > 0);
  child.kill('SIGINT');
  child.kill('SIGTERM');
  await sleep(200);
  for (const answer of server.deletes) answer.end();
  assert.deepEqual(await exited, [0, null]);
  assert.equal(server.deletes.length, 1);
});

test('a signal after that ends it at once, where the server does not answer', async (t) => {
  const server = await serveEndpoint(t);
  const { child, exited } = await startListening(t, server.origin, server.origin);
  child.kill('SIGINT');
  await until(async () => server.deletes.length > 0);
  await sleep(1_500);
  child.kill('SIGTERM');
  await until(async () => child.signalCode !== null, 5_000, 'the end');
  assert.deepEqual(await exited, [null, 'SIGTERM']);
  assert.equal(server.deletes.length, 1);
});

/** The command, once it listens. */
async function startListening(owner: TestContext, url: string, forward: string) {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const env = { PATH, NODE_COMPILE_CACHE, PARLEY_URL: url, PARLEY_API_KEY: app.apiKey };
  const args = [command, 'webhooks', 'listen', '--forward', forward, '--events', 'api_key.created'];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  owner.after(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more) => {
    text += more;
  });
  await until(async () => text.includes('Ctrl-C') || child.exitCode !== null, 20_000, 'the first line');
  return { child, printed: () => text, exited };
}

/** A server with an endpoint, which leaves it to the test to answer that the endpoint is deleted. */
async function serveEndpoint(owner: TestContext) {
  const deletes: ServerResponse[] = [];
  const server = await serveLocally((request, response) => {
    if (request.method === 'DELETE') deletes.push(response);
    else response.writeHead(201).end('{"webhook_endpoint":{"id":1},"secret":"whsec_svc_1"}');
  });
  owner.after(() => server.close());
  return { origin: server.origin, deletes };
}
