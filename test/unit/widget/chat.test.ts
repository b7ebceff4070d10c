// A chat of the widget: which conversation it goes on with, what it does once it is closed, and how often it asks.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ConnectionError, ParleyClient } from '../../../client/src/index.ts';
import { Chat } from '../../../widget/src/chat.ts';
import { type Page, Sending } from '../../../widget/src/sending.ts';
import type { StoredText } from '../../../widget/src/stored-text.ts';

function storedText(text?: string): StoredText {
  let stored = text;
  const write = (next?: string) => {
    stored = next;
  };
  return { read: () => stored, write, forget: write };
}

/** A server with the sessions `ses_x` and `ses_y`, and every request to it. It makes `ses_new`. */
function scriptedServer() {
  const requests: string[] = [];
  const gone = Promise.withResolvers<void>();
  const hasNone = () => Response.json({ detail: 'Not Found' }, { status: 404 });
  const answer = async (request: string, signal: AbortSignal | undefined): Promise<Response> => {
    if (request === 'POST /sessions') return Response.json({ id: 'ses_new' });
    if (request.endsWith('/stream')) {
      const ended = new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
      await (request.includes('ses_x') ? Promise.race([gone.promise, ended]) : ended);
      return hasNone();
    }
    if (request.startsWith('GET')) return Response.json({ events: [] });
    if (!request.includes('ses_x')) return Response.json({ accepted: true });
    await gone.promise;
    return hasNone();
  };
  const fetch: typeof globalThis.fetch = (url, init) => {
    const request = `${init?.method} ${new URL(String(url)).pathname.replace('/demo/assistant/v1/managed-agents', '')}`;
    requests.push(request);
    return answer(request, init?.signal ?? undefined);
  };
  return { requests, fetch, deleteX: gone.resolve };
}

interface Parts {
  fetch?: typeof globalThis.fetch;
  sessionToken?: () => string;
  sessionId?: StoredText;
  unsent?: StoredText;
  sending?: Sending;
  typed?: string;
}

function chatOf(parts: Parts): Chat {
  const { fetch = globalThis.fetch, sessionToken = () => 'token', sessionId = storedText(), unsent = storedText(), typed = '' } = parts;
  const client = new ParleyClient({ baseUrl: 'http://127.0.0.1', sessionToken, agent: 'demo/assistant', fetch });
  const page: Page = { typed: () => typed, takeBack: () => {}, changed: () => {}, follow: (open, signal) => open(signal) };
  return new Chat(client.managed, sessionId, unsent, parts.sending ?? new Sending('key'), {}, page);
}

/** Time passes only in `pass`. */
function stopTime(context: TestContext): { pass(milliseconds: number): Promise<void> } {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const pass = async (milliseconds: number) => {
    for (let passed = 0; passed <= milliseconds; passed += 50) {
      for (let turn = 0; turn < 5; turn += 1) await setImmediate();
      context.mock.timers.tick(50);
    }
  };
  return { pass };
}

test('a conversation that another tab has begun is not forgotten with the one that is gone, and goes on here', async (context) => {
  const { pass } = stopTime(context);
  for (const how of ['the log says so', 'a message is refused']) {
    const { requests, fetch, deleteX } = scriptedServer();
    const sessionId = storedText('ses_x');
    const chat = chatOf({ fetch, sessionId });
    chat.resume();
    await pass(100);
    sessionId.write('ses_y');
    if (how === 'the log says so') deleteX();
    await pass(100);
    const sent = chat.send('hello', []);
    await pass(100);
    deleteX();
    await sent;
    assert.equal(sessionId.read(), 'ses_y', how);
    assert.ok(requests.includes('POST /sessions/ses_y/events'), how);
    assert.ok(!requests.includes('POST /sessions'), how);
    chat.startOver();
    assert.equal(sessionId.read(), undefined, 'whoever begins anew means every tab');
    chat.close();
  }
});

test('a chat that is closed while it sends follows no other session, and leaves the unsent text to the one that came after it', async (context) => {
  const { pass } = stopTime(context);
  const { requests, fetch, deleteX } = scriptedServer();
  const [sessionId, unsent, sending] = [storedText('ses_x'), storedText(), new Sending('key')];
  const chat = chatOf({ fetch, sessionId, unsent, sending, typed: 'in the field that was removed' });
  chat.resume();
  await pass(100);
  const sent = chat.send('hello', []);
  await pass(100);
  chat.close();
  const next = chatOf({ fetch, sessionId: storedText(), unsent, sending, typed: 'half a thought' });
  next.resume();
  deleteX();
  await sent;
  await pass(100);
  assert.deepEqual(
    requests.filter((request) => request.includes('ses_new')),
    ['POST /sessions/ses_new/events'],
  );
  assert.equal(unsent.read(), 'half a thought');
  next.close();
});

test('who cannot give a token now is asked less and less often', async (context) => {
  const { pass } = stopTime(context);
  let asked = 0;
  const chat = chatOf({
    sessionToken: () => {
      asked += 1;
      throw new ConnectionError('/token gave no session token (429)');
    },
  });
  const sent = assert.rejects(chat.send('hello', []), ConnectionError);
  await pass(60_000);
  assert.ok(asked >= 10 && asked <= 25, `${asked} times in a minute`);
  chat.leave();
  await pass(8_000);
  await sent;
});
