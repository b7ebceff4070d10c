// <parley-chat> on a page that goes on when its visitor leaves a conversation, or when somebody else signs in: nobody sees or sends what is
// not theirs.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { ParleyClient } from '../../client/src/index.ts';
import { openBrowser } from '../support/browser.ts';
import { buildWidget } from '../support/build-widget.ts';
import { startExample } from '../support/example.ts';
import { startServer } from '../support/server-process.ts';

buildWidget();
const server = await startServer({ after });
const shop = await startExample({ after }, 'widget', server.url);
const browser = await openBrowser({ after });
const backend = new ParleyClient({ baseUrl: server.url, apiKey: server.apiKey, agent: 'demo/assistant' });

const field = (page: Page) => page.getByLabel('Write a message');
const answers = (page: Page) => page.locator('parley-chat .agent .bubble:not(.draft)');
const said = (page: Page) => page.locator('parley-chat .user .bubble');

async function visit(): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(shop);
  await field(page).waitFor();
  return page;
}

async function say(page: Page, text: string): Promise<void> {
  await field(page).fill(text);
  await page.keyboard.press('Enter');
}

async function attach(page: Page, name: string): Promise<void> {
  const chooser = page.waitForEvent('filechooser');
  await page.getByRole('button', { name: 'Attach a file' }).click();
  await (await chooser).setFiles([{ name, mimeType: 'text/plain', buffer: Buffer.from(name) }]);
  await page.getByRole('button', { name: `Remove ${name}` }).waitFor();
}

/** Every text that people have sent to the agent. */
async function sentTexts(): Promise<string[]> {
  const { sessions } = await backend.sessions.list({ per_page: 100 });
  const transcripts = await Promise.all(sessions.map(({ id }) => backend.sessions.transcript(id)));
  return transcripts.flatMap(({ messages }) => messages.filter(({ role }) => role === 'user').map(({ text }) => text));
}

test('a message whose files are still on their way when a new conversation is begun is not sent to the old one', async () => {
  const page = await visit();
  const held = Promise.withResolvers<void>();
  const uploaded = page.waitForResponse(/\/files$/);
  await page.route(/\/files$/, (route) => held.promise.then(() => route.continue()));
  await attach(page, 'plan.txt');
  await say(page, '/say never mind');
  await page.waitForRequest(/\/files$/);
  await page.getByRole('button', { name: 'New conversation' }).click();
  await said(page).first().waitFor({ state: 'detached' });
  held.resolve();
  await uploaded;
  await say(page, '/say anew');
  await answers(page).getByText('anew').waitFor();
  assert.deepEqual(await said(page).allTextContents(), ['You: /say anew']);
  assert.deepEqual(
    (await sentTexts()).filter((text) => text === '/say never mind'),
    [],
  );
});
