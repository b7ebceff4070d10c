// <parley-chat> where the network is bad: connections that break and come back, messages written meanwhile, pages over plain HTTP.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { ParleyClient } from '../../client/src/index.ts';
import { startBreakingProxy } from '../support/breaking-proxy.ts';
import { openAsNewVisitor, openBrowser } from '../support/browser.ts';
import { buildWidget } from '../support/build-widget.ts';
import { startExample } from '../support/example.ts';
import { startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';

buildWidget();
const server = await startServer({ after });
/** Of the posts to these paths, the server gets each and the page no answer. */
let unanswered: RegExp | undefined;
const proxy = await startBreakingProxy(server.url, ({ method, path }) =>
  method === 'POST' && unanswered?.test(path) ? { cutAfterBytes: 0 } : undefined,
);
after(() => proxy.close());
const shop = await startExample({ after }, 'widget', proxy.origin);
const context = await (await openBrowser({ after })).newContext();

async function visit(prepare = ''): Promise<Page> {
  const page = await openAsNewVisitor(context, shop);
  await page.addInitScript(prepare);
  await page.goto(shop);
  await page.getByLabel('Write a message').waitFor();
  return page;
}

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel('Write a message').fill(text);
  await page.keyboard.press('Enter');
}

/** Until `back`, nothing that the page asks for arrives, and what it was following ends. Counts what was tried. */
async function cutOff(page: Page, paths: RegExp): Promise<{ keys: string[]; back(): void }> {
  const keys: string[] = [];
  let isBack = false;
  await page.route(paths, async (route) => {
    if (isBack) return route.continue();
    if (route.request().method() === 'POST') keys.push((await route.request().headerValue('idempotency-key')) ?? '');
    await route.abort();
  });
  proxy.breakAll();
  const back = () => {
    // The route stays: a request that is sent just while it is taken away can be lost.
    isBack = true;
  };
  return { keys, back };
}

const written = (page: Page) => page.getByLabel('Write a message').inputValue();
const status = async (page: Page) => (await page.locator('parley-chat .status').textContent())?.trim();
const lost = (page: Page) => page.getByText('The connection was lost. Trying again…');
const said = (page: Page) => page.locator('parley-chat .user .bubble').allTextContents();
/** More than the client tries by itself. */
const beyondPatience = 8;

const answers = (page: Page) => page.locator('parley-chat .agent .bubble:not(.draft)');

test('a page over plain HTTP, where browsers lack half of their cryptography, is answered too', async () => {
  const page = await visit('delete Crypto.prototype.randomUUID; delete Crypto.prototype.subtle');
  await say(page, '/say unencrypted');
  await answers(page).getByText('unencrypted').waitFor({ timeout: 10_000 });
});

test('a message waits for as long as the connection is away, the first one too, and arrives once', async () => {
  const page = await visit();
  const outage = await cutOff(page, /managed-agents/);
  await say(page, '/say at last');
  await until(async () => outage.keys.length > beyondPatience, 20_000, 'it is tried again');
  await lost(page).waitFor();
  assert.equal(await written(page), '');
  outage.back();
  await answers(page).getByText('at last').waitFor();
  await until(async () => (await status(page)) === '');
  assert.deepEqual([await said(page), new Set(outage.keys).size], [['You: /say at last'], 1]);
});

test('a message whose answers were lost is sent, as the log shows, and not written again', async () => {
  const page = await visit();
  await say(page, '/say before');
  await answers(page).getByText('before').waitFor();
  unanswered = /\/events$/;
  let failed = 0;
  page.on('requestfailed', () => {
    failed += 1;
  });
  await say(page, '/say arrived');
  await answers(page).getByText('arrived').waitFor();
  await until(async () => failed === 6, 20_000, 'the client gives up');
  unanswered = undefined;
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
  assert.deepEqual([await said(page), await written(page), await status(page)], [['You: /say before', 'You: /say arrived'], '', '']);
});

test('a reload keeps what could not be sent, before what was written since; what was sent is not written again', async () => {
  const page = await visit();
  await say(page, '/say before');
  await answers(page).getByText('before').waitFor();
  const outage = await cutOff(page, /managed-agents/);
  await say(page, '/say unsent');
  await lost(page).waitFor();
  await page.getByLabel('Write a message').fill('half a thought');
  await page.reload();
  outage.back();
  await answers(page).getByText('before').waitFor();
  assert.equal(await written(page), '/say unsent\nhalf a thought');
  await say(page, '/say sent');
  await answers(page).getByText('sent', { exact: true }).waitFor();
  await page.reload();
  await answers(page).getByText('sent', { exact: true }).waitFor();
  assert.equal(await written(page), '');
});

test('a new token that cannot be fetched, as after a sleep, is waited for as well', async () => {
  const page = await visit();
  const outage = await cutOff(page, /\/token$/);
  await say(page, '/say awake');
  await lost(page).waitFor();
  outage.back();
  await answers(page).getByText('awake').waitFor();
  assert.equal(await status(page), '');
});

/** The script of a page that has little patience. */
const impatient = 'AbortSignal.timeout = ((timeout) => (ms) => timeout(Math.min(ms, 1_000)))(AbortSignal.timeout.bind(AbortSignal));';

test('a token that never comes, because the network is gone without a word, is asked for again', async () => {
  const page = await visit(impatient);
  let asked = 0;
  await page.route('**/token', (route) => {
    asked += 1;
    return asked === 1 ? undefined : route.continue();
  });
  await say(page, '/say after all');
  await answers(page).getByText('after all').waitFor({ timeout: 10_000 });
  assert.equal(asked, 2);
});

test('a token of which only the beginning comes is asked for again', async () => {
  const page = await visit(`${impatient}
    const untouched = window.fetch;
    let asked = 0;
    window.fetch = async (url, init) => {
      if (!String(url).endsWith('/token') || (asked += 1) > 1) return untouched(url, init);
      const start = (body) => init.signal.addEventListener('abort', () => body.error(init.signal.reason));
      return new Response(new ReadableStream({ start }));
    };`);
  await say(page, '/say after all');
  await answers(page).getByText('after all').waitFor({ timeout: 10_000 });
});

test('a page that is loaded while the server is away shows its conversation by itself when that is back', async () => {
  const page = await visit();
  await say(page, '/say before');
  await answers(page).getByText('before').waitFor();
  const { back } = await cutOff(page, /managed-agents/);
  await page.reload();
  await lost(page).waitFor();
  await back();
  await answers(page).getByText('before').waitFor();
  assert.equal(await status(page), '');
});

test('an approval that could not be given is not given later: it says so until the connection is back', async () => {
  const page = await visit();
  await say(page, '/tool bash {"command":"echo approved"}');
  const approve = page.getByRole('button', { name: 'Approve once' });
  await approve.waitFor();
  const outage = await cutOff(page, /managed-agents/);
  await lost(page).waitFor();
  await approve.click();
  await page.getByText('The server could not be reached').waitFor();
  outage.back();
  await until(async () => (await status(page)) === '', 20_000);
  await approve.click();
  await answers(page).getByText('approved').waitFor();
});

test('a network that is gone without a word is told of while the first message waits for it', async () => {
  const page = await visit();
  const thaw = Promise.withResolvers<void>();
  await page.route(/managed-agents/, (route) => thaw.promise.then(() => route.continue()));
  await say(page, '/say thawed');
  await lost(page).waitFor({ timeout: 10_000 });
  thaw.resolve();
  await answers(page).getByText('thawed').waitFor();
  await until(async () => (await status(page)) === '');
});

test('whoever tries again with the keyboard goes on in the message field', async () => {
  const page = await visit();
  await say(page, '/say before');
  await answers(page).getByText('before').waitFor();
  let refusals = 0;
  await page.route(/events\/stream/, (route) => {
    refusals += 1;
    return route.fulfill({ status: 403, json: { detail: 'Not now' } });
  });
  proxy.breakAll();
  await page.getByRole('button', { name: 'Try again' }).press('Enter');
  const isInField = () => page.evaluate<boolean>("document.querySelector('parley-chat').shadowRoot.activeElement?.tagName === 'TEXTAREA'");
  await until(isInField);
  await until(async () => refusals === 2, 20_000, 'it is refused again');
  await page.unroute(/events\/stream/);
  await page.getByRole('button', { name: 'Try again' }).press('Enter');
  await until(isInField);
  await page.keyboard.type('/say after');
  await page.keyboard.press('Enter');
  await answers(page).getByText('after').waitFor();
});

test('whoever presses twice to try again sees every answer once', async () => {
  const page = await visit();
  await say(page, '/say before');
  await answers(page).getByText('before').waitFor();
  await page.route(/events\/stream/, (route) => route.fulfill({ status: 403, json: { detail: 'Not now' } }), { times: 1 });
  proxy.breakAll();
  await page.getByRole('button', { name: 'Try again' }).evaluate((button: { click(): void }) => {
    button.click();
    button.click();
  });
  await say(page, '/say once');
  await answers(page).getByText('once').first().waitFor();
  await say(page, '/say last');
  await answers(page).getByText('last').first().waitFor();
  assert.deepEqual(await said(page), ['You: /say before', 'You: /say once', 'You: /say last']);
  await page.close();
});

test('where others answer the approvals, the page says that it waits, and goes on when they have', async () => {
  const page = await visit();
  await page.evaluate("document.querySelector('parley-chat').noApprovals = true");
  await say(page, '/tool bash {"command":"echo decided"}');
  await page.getByText('Waiting for an approval…').waitFor();
  assert.equal(await page.getByRole('button', { name: /Approve|Deny/ }).count(), 0);
  const backend = new ParleyClient({ baseUrl: server.url, apiKey: server.apiKey, agent: 'demo/assistant' });
  const [{ id = '' } = {}] = (await backend.sessions.list()).sessions;
  const { pending_input: asked } = await backend.sessions.get(id);
  await backend.inputs.resolve(id, asked?.request_id ?? '', 'approve_once');
  await answers(page).getByText('decided').waitFor();
  await page.getByText('Approved').waitFor();
});

test('an attribute that is taken away is as if it had never been there', async () => {
  const page = await visit();
  await say(page, '/say as somebody');
  await answers(page).getByText('as somebody').waitFor();
  const token = await page.evaluate("fetch('/token', { method: 'POST' }).then((answer) => answer.json()).then(({ token }) => token)");
  await page.evaluate(`{
    const chat = document.querySelector('parley-chat');
    chat.setAttribute('heading', 'Ask us');
    chat.setAttribute('end-user', 'ada');
    chat.setAttribute('base-url', location.origin);
  }`);
  await page.getByRole('heading', { name: 'Ask us' }).waitFor();
  await page.evaluate(`{
    const chat = document.querySelector('parley-chat');
    chat.token = '${token}';
    for (const name of ['heading', 'end-user', 'base-url', 'token-url']) chat.removeAttribute(name);
  }`);
  await page.getByRole('heading', { name: 'Chat' }).waitFor();
  await answers(page).getByText('as somebody').waitFor();
  await say(page, '/say as nobody');
  await answers(page).getByText('as nobody').waitFor();
});
