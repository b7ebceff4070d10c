// <parley-chat> where the network is bad: connections that break and come back, messages written meanwhile, pages over plain HTTP.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { startBreakingProxy } from '../support/breaking-proxy.ts';
import { openBrowser } from '../support/browser.ts';
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
const browser = await openBrowser({ after });

async function visit(prepare = ''): Promise<Page> {
  const page = await browser.newPage();
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
async function cutOff(page: Page, paths: RegExp): Promise<{ keys: string[]; back(): Promise<void> }> {
  const keys: string[] = [];
  await page.route(paths, async (route) => {
    if (route.request().method() === 'POST') keys.push((await route.request().headerValue('idempotency-key')) ?? '');
    await route.abort();
  });
  proxy.breakAll();
  return { keys, back: () => page.unroute(paths) };
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
  await page.close();
});
