// The client checks what the server really signs, and the example that talks in a terminal really talks.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { ParleyClient, SignatureError, verifyWebhook } from '../../client/src/index.ts';
import { startApp } from '../support/app.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const app = await startApp({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
const baseUrl = await app.listen();
const client = new ParleyClient({ baseUrl, apiKey: app.apiKey, agent: 'demo/assistant' });

test('a delivery of the server is verified, one that was changed on its way is not', async () => {
  const receiver = await startReceiver({ after });
  const { secret } = await client.request('POST /api/webhook_endpoints', {
    body: { name: 'Test', url: receiver.url, event_types: ['session.started'] },
  });
  const session = await client.sessions.create();
  const [delivery] = await receiver.until((received) => received.length > 0);
  const header = String(delivery?.headers['svc-signature']);
  const event = await verifyWebhook(delivery?.text ?? '', header, secret);
  assert.equal(event.type, 'session.started');
  assert.equal(event.data.session_id, session.id);
  assert.equal(event.organization.slug, 'demo');
  await assert.rejects(verifyWebhook(`${delivery?.text} `, header, secret), SignatureError);
});

test('the example chats in a terminal and asks before a tool runs', async () => {
  const example = spawn(process.execPath, [join(import.meta.dirname, '../../examples/node/chat.ts')], {
    env: { PATH: process.env.PATH, PARLEY_URL: baseUrl, PARLEY_API_KEY: app.apiKey },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  after(() => example.kill());
  const lines = ['/tool bash {"command":"echo from the shell"}', '1', '/say good bye'];
  let shown = '';
  for await (const piece of example.stdout.setEncoding('utf8')) {
    shown += piece;
    // Each prompt is answered with the next line; after the last one there is nothing more to say.
    if (!/[>?] $/.test(shown)) continue;
    const line = lines.shift();
    if (line === undefined) break;
    example.stdin.write(`${line}\n`);
  }
  assert.match(shown, /1 approve_once {3}2 approve_session {3}3 deny/);
  assert.match(shown, /from the shell[\s\S]*good bye/);
});

test('the example answers all that is piped into it', async () => {
  const example = spawn(process.execPath, [join(import.meta.dirname, '../../examples/node/chat.ts')], {
    env: { PATH: process.env.PATH, PARLEY_URL: baseUrl, PARLEY_API_KEY: app.apiKey },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  after(() => example.kill());
  example.stdin.end('/say good morning\n/tool bash {"command":"echo from the shell"}\n1\n/say good bye');
  assert.match(await text(example.stdout), /good morning[\s\S]*from the shell[\s\S]*good bye/);
});
