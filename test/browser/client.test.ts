// The client in a real browser, on a page of another origin, bundled as an application would bundle it.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { build } from 'vite';
import { ParleyClient } from '../../client/src/index.ts';
import { startApp } from '../support/app.ts';
import { openBrowser } from '../support/browser.ts';
import { serveLocally } from '../support/local-server.ts';

const app = await startApp({ after });
const baseUrl = await app.listen();
const bundle = await bundleClient();
const page = await openPage();

test('the client converses with a session token: deltas, an approval, an upload', async () => {
  const seen = await page.evaluate(`(async () => {
    const { ParleyClient } = await import('/client.js');
    const sessionToken = async () => (await fetch('/token')).text();
    const { managed } = new ParleyClient({ baseUrl: '${baseUrl}', agent: 'demo/assistant', sessionToken });
    const { id } = await managed.create();
    await managed.upload(id, 'note.txt', new Blob(['from the browser']));
    await managed.send(id, '/tool bash {"command":"cat uploads/note.txt"}');
    const types = [];
    let draft = '';
    for await (const event of managed.events(id, { deltas: true })) {
      if (event.type === 'agent.message_delta') { draft += event.text; continue; }
      types.push(event.type);
      if (event.type === 'agent.message') types.push(event.text.startsWith(draft));
      if (event.stop_reason === 'requires_action') await managed.confirm(id, event.request_id, 'approve_once');
      if (event.stop_reason === 'end_turn') break;
    }
    return { types, messages: (await managed.transcript(id)).messages.length, draft };
  })()`);
  assert.deepEqual(seen, {
    types: [
      'user.message',
      'session.status_running',
      'agent.tool_use',
      'session.status_idle',
      'user.tool_confirmation',
      'session.status_running',
      'agent.tool_result',
      'agent.message',
      true,
      'session.status_idle',
    ],
    messages: 2,
    draft: (seen as { draft: string }).draft,
  });
  assert.match((seen as { draft: string }).draft, /from the browser/);
});

test('errors of another origin keep their status, code and request id', async () => {
  const error = await page.evaluate(`(async () => {
    const { ParleyClient, NotFoundError } = await import('/client.js');
    const { token } = await (await fetch('/token')).text().then((token) => ({ token }));
    const { managed } = new ParleyClient({ baseUrl: '${baseUrl}', agent: 'demo/assistant', sessionToken: token });
    return managed.get('ses_unknown').catch((error) => [error instanceof NotFoundError, error.status, error.detail, /^rid_/.test(error.requestId)]);
  })()`);
  assert.deepEqual(error, [true, 404, 'Not Found', true]);
});

test('an API key has no business in a browser: the native routes do not answer other origins', async () => {
  const message = await page.evaluate(`(async () => {
    const { ParleyClient } = await import('/client.js');
    const client = new ParleyClient({ baseUrl: '${baseUrl}', apiKey: '${app.apiKey}', maxRetries: 0 });
    return client.sessions.create().catch((error) => error.name);
  })()`);
  assert.equal(message, 'ConnectionError');
});

async function openPage() {
  const backend = new ParleyClient({ baseUrl, apiKey: app.apiKey, agent: 'demo/assistant' });
  const site = await serveLocally(async ({ url }, response) => {
    if (url === '/client.js') response.writeHead(200, { 'content-type': 'text/javascript' }).end(bundle);
    else if (url === '/token') response.end((await backend.mintSessionToken({ end_user_id: 'ann' })).token);
    else response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Site</title>');
  });
  after(site.close);
  const browser = await openBrowser({ after });
  const opened = await browser.newPage();
  await opened.goto(site.origin);
  return opened;
}

async function bundleClient(): Promise<string> {
  const result = await build({
    root: join(import.meta.dirname, '../..'),
    configFile: false,
    logLevel: 'silent',
    build: { write: false, rolldownOptions: { input: 'client/src/index.ts', preserveEntrySignatures: 'strict' } },
  });
  assert.ok('output' in result);
  return result.output[0].code;
}
