// `parley webhooks listen`: events of a server on this machine, passed on to a local port.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, test } from 'node:test';
import Stripe from 'stripe';
import { startApp } from '../../support/app.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const app = await startApp({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
const command = join(import.meta.dirname, '../../../src/cli/main.ts');

test('events are passed on with their signature, and the endpoint is gone afterwards', async (t) => {
  const receiver = await startReceiver(t);
  const endpoints = async () => JSON.parse((await app.request('GET', '/api/webhook_endpoints')).text).webhook_endpoints;
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const env = { PATH, NODE_COMPILE_CACHE, PARLEY_URL: await app.listen(), PARLEY_API_KEY: app.apiKey };
  const listen = async () => {
    const args = [command, 'webhooks', 'listen', '--forward', receiver.url, '--events', 'api_key.created'];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => child.kill('SIGKILL'));
    let printed = '';
    await new Promise<void>((resolve) => {
      child.once('exit', () => resolve());
      child.stdout.setEncoding('utf8').on('data', (text) => {
        printed += text;
        if (printed.includes('Ctrl-C')) resolve();
      });
    });
    return { child, printed, exited: once(child, 'exit') };
  };
  const { child, printed, exited } = await listen();
  const secret = /whsec_svc_\S+/.exec(printed)?.[0] ?? '';
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
