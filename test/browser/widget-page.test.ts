// <parley-chat> and the page around it: its backend that gives no token, the element that it moves or replaces, what it sends by itself.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { openAsNewVisitor, openBrowser } from '../support/browser.ts';
import { buildWidget } from '../support/build-widget.ts';
import { startExample } from '../support/example.ts';
import { startServer } from '../support/server-process.ts';

buildWidget();
const server = await startServer({ after });
const shop = await startExample({ after }, 'widget', server.url);
const context = await (await openBrowser({ after })).newContext();

const field = (page: Page) => page.getByLabel('Write a message');
const answers = (page: Page) => page.locator('parley-chat .agent .bubble:not(.draft)');
const said = (page: Page) => page.locator('parley-chat .user .bubble');
const status = async (page: Page) => (await page.locator('parley-chat .status').textContent())?.trim();

async function visit(): Promise<Page> {
  const page = await openAsNewVisitor(context, shop);
  await page.goto(shop);
  await field(page).waitFor();
  return page;
}

async function say(page: Page, text: string): Promise<void> {
  await field(page).fill(text);
  await page.keyboard.press('Enter');
}

test('a message waits also while the backend of the page, or a proxy before it, says that it cannot give a token now', async () => {
  const page = await visit();
  const refusals = [502, 429, 500];
  await page.route('**/token', (route) => {
    const status = refusals.shift();
    return status === undefined ? route.continue() : route.fulfill({ status });
  });
  await say(page, '/say after the deployment');
  await page.getByText('The connection was lost. Trying again…').waitFor();
  await answers(page).getByText('after the deployment').waitFor({ timeout: 10_000 });
  assert.deepEqual([await said(page).allTextContents(), refusals, await status(page)], [['You: /say after the deployment'], [], '']);
});

test('whoever was signed out meanwhile is told why, and the backend is asked again only when they try again', async () => {
  const page = await visit();
  await say(page, '/say before');
  await answers(page).getByText('before').waitFor();
  let refusals = 0;
  await page.route('**/token', (route) => {
    refusals += 1;
    return route.fulfill({ status: 401 });
  });
  await page.reload();
  await page.getByText('/token gave no session token (401)').waitFor({ timeout: 5_000 });
  const asked = refusals;
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 1_000))');
  assert.equal(refusals, asked);
  await page.unroute('**/token');
  await page.getByRole('button', { name: 'Try again' }).click();
  await answers(page).getByText('before').waitFor();
  assert.equal(await status(page), '');
});
