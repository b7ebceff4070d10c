// <parley-chat> on a page of another origin, in a real browser, with a session token that the shop's backend minted.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { findViolations } from '../support/axe.ts';
import { keepPicture, openAsNewVisitor, openBrowser } from '../support/browser.ts';
import { buildWidget } from '../support/build-widget.ts';
import { startExample } from '../support/example.ts';
import { startServer } from '../support/server-process.ts';

buildWidget();
const server = await startServer({ after }, { settings: { PARLEY_LEASE_MS: '1000' } });
const shop = await startExample({ after }, 'widget', server.url);
const browser = await openBrowser({ after });
const options = { viewport: { width: 900, height: 800 } };
const context = await browser.newContext(options);
const newVisitor = () => openAsNewVisitor(context, shop);

async function visit(page?: Page): Promise<Page> {
  const visited = page ?? (await newVisitor());
  await visited.goto(shop);
  await visited.getByLabel('Write a message').waitFor();
  return visited;
}

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel('Write a message').fill(text);
  await page.keyboard.press('Enter');
}

const answers = (page: Page) => page.locator('parley-chat .agent .bubble:not(.draft)');

test('a message is answered, written word by word; the Enter that ends a composition sends none', async () => {
  const page = await visit();
  await say(page, '/delay 300\n/say one **two** three four five');
  const draft = page.locator('parley-chat .bubble.draft');
  await draft.getByText('one two').waitFor();
  await answers(page).getByText('one two three four five').waitFor();
  await draft.waitFor({ state: 'detached' });
  assert.equal(await answers(page).locator('strong').textContent(), 'two');
  assert.equal(await page.locator('parley-chat .user .bubble').count(), 1);
  // Its Markdown is not read again with every word of the next one.
  await page.evaluate(`globalThis.reads = 0; const { matchAll } = String.prototype;
    String.prototype.matchAll = function (spans) { reads += this.startsWith('one **'); return matchAll.call(this, spans); }`);
  await say(page, '/say and another');
  await answers(page).getByText('and another').waitFor();
  assert.equal(await page.evaluate('reads'), 0);
  await page.getByLabel('Write a message').fill('かな');
  // All that Safari says of it.
  await page.getByLabel('Write a message').dispatchEvent('keydown', { key: 'Enter', keyCode: 229 });
  assert.equal(await page.getByLabel('Write a message').inputValue(), 'かな');
});

test('an approval is given by a click', async () => {
  const page = await visit();
  await say(page, '/tool bash {"command":"echo clicked"}');
  const card = page.getByRole('group', { name: /Approval needed: bash/ });
  await card.getByText('Details').click();
  await card.getByText('"command": "echo clicked"').waitFor();
  await card.getByRole('button', { name: 'Approve once' }).click();
  await card.getByText('Approved').waitFor();
  await answers(page).getByText('clicked').waitFor();
});

test('an approval is given by the keyboard alone, and the focus goes to it and back', async () => {
  const page = await visit();
  await page.getByLabel('Write a message').focus();
  await page.keyboard.type('/tool bash {"command":"echo keyed"}');
  await page.keyboard.press('Enter');
  const card = page.getByRole('group', { name: /Approval needed: bash/ });
  await card.waitFor();
  await page.locator('parley-chat .approval:focus').waitFor();
  await page.keyboard.press('3');
  await card.getByText('Denied').waitFor();
  await page.locator('parley-chat textarea:focus').waitFor();
  await page.keyboard.type('/tool bash {"command":"echo again"}');
  await page.keyboard.press('Enter');
  const second = page.getByRole('group', { name: /Approval needed: bash/ }).nth(1);
  await second.waitFor();
  await page.locator('parley-chat .approval:focus').waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await second.getByText('Approved').waitFor();
  await answers(page).getByText('again').waitFor();
});

test('a file is attached, uploaded with its message, and read by the agent; the focus is back in the text', async () => {
  const page = await visit();
  const chooser = page.waitForEvent('filechooser');
  await page.getByRole('button', { name: 'Attach a file' }).click();
  const files = ['notes.txt', `${'unwanted'.repeat(25)}.txt`].map((name) => ({
    name,
    mimeType: 'text/plain',
    buffer: Buffer.from(`inside ${name}`),
  }));
  await (await chooser).setFiles(files);
  const remove = page.getByRole('button', { name: 'Remove unwanted' });
  assert.ok(((await remove.boundingBox())?.x ?? 900) < 880, 'a long name leaves the button in view');
  await remove.click();
  await page.keyboard.type('/tool files {"operation":"read","path":"uploads/notes.txt"}\n');
  await answers(page).getByText('inside notes.txt').waitFor();
  assert.equal(await page.locator('parley-chat .user .file').textContent(), 'notes.txt');
});

test('a reload goes on with the conversation, also in the middle of a turn and with an open question', async () => {
  const page = await visit();
  await say(page, '/say before the reload');
  await answers(page).getByText('before the reload').waitFor();
  await say(page, '/delay 100\n/say this answer takes a little while to write');
  await page.locator('parley-chat .bubble.draft').getByText('this answer').waitFor();
  await page.getByLabel('Write a message').fill('half a thought');
  await visit(page);
  await answers(page).getByText('before the reload').waitFor();
  assert.equal(await page.getByLabel('Write a message').inputValue(), 'half a thought');
  await answers(page).getByText('this answer takes a little while to write').waitFor();
  await say(page, '/tool bash {"command":"echo later"}');
  await page.getByRole('group', { name: /Approval needed/ }).waitFor();
  await visit(page);
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('Denied', { exact: true }).waitFor();
  assert.equal(await page.locator('parley-chat .user .bubble').count(), 3);
  await page.getByRole('button', { name: 'New conversation' }).click();
  await page.locator('parley-chat .user').first().waitFor({ state: 'detached' });
  await visit(page);
  assert.equal(await page.locator('parley-chat .user').count(), 0);
});

test('a tab that was open before goes on with the conversation that another one began', async () => {
  const first = await visit();
  const second = await visit(await first.context().newPage());
  await say(first, '/say from the first');
  await answers(first).getByText('from the first').waitFor();
  await say(second, '/say from the second');
  for (const tab of [first, second]) for (const text of ['from the first', 'from the second']) await answers(tab).getByText(text).waitFor();
});

test('a token that runs out is fetched anew; where no token or no agent is to be had, it says so', async () => {
  const page = await visit();
  // A page to sign in; then no token at all, as one whose key was rotated away would be.
  const given = [{ body: '<p>Sign in' }, { json: { token: 'expired.expired.expired' } }, undefined];
  await page.route('**/token', (route) => {
    const answer = given.shift();
    return answer === undefined ? route.continue() : route.fulfill(answer);
  });
  await say(page, '/say still here');
  await page.getByText('/token gave no session token (200)').waitFor();
  await page.keyboard.press('Enter');
  await answers(page).getByText('still here').waitFor();
  await page.evaluate("document.querySelector('parley-chat').agent = ''");
  await page.getByText('This chat has no agent').waitFor();
});

test('the widget can float over the page and fill a phone: opened and closed by its button and Escape; the rules of the page stay outside', async () => {
  // Of its own context, which is offline for a while.
  const page = await visit(await browser.newPage(options));
  await page.evaluate(`document.adoptedStyleSheets.push(new CSSStyleSheet());
    document.adoptedStyleSheets.at(-1).replaceSync('html { font-size: 5px } * { font: italic 30px/3 serif; color: red; text-transform: uppercase; text-align: center }')`);
  await page.evaluate("document.querySelector('parley-chat').floating = true");
  const button = page.getByRole('button', { name: 'Open the chat' });
  const [around, icon] = [await button.boundingBox(), await button.locator('svg').boundingBox()];
  assert.ok(around !== null && icon !== null && Math.abs(around.x + around.width / 2 - icon.x - icon.width / 2) < 1, 'in its middle');
  await button.click();
  await page.locator('parley-chat textarea:focus').waitFor();
  await say(page, '/say floating');
  await answers(page).getByText('floating').waitFor();
  const style = await page.evaluate(`(({ fontSize, fontStyle, color, textTransform, textAlign }) =>
    [fontSize, fontStyle, color, textTransform, textAlign])(getComputedStyle(document.querySelector('parley-chat').shadowRoot.querySelector('.agent .bubble')))`);
  assert.deepEqual(style, ['15px', 'normal', 'rgb(27, 31, 39)', 'none', 'start']);
  const panel = () => page.locator('parley-chat .panel').boundingBox();
  assert.ok(((await panel())?.width ?? 0) > 350);
  await page.context().setOffline(true);
  await page.getByText('The connection was lost').waitFor();
  await page.context().setOffline(false);
  await page.getByText('The connection was lost').waitFor({ state: 'hidden' });
  await page.setViewportSize({ width: 390, height: 600 });
  assert.deepEqual(await panel(), { x: 0, y: 0, width: 390, height: 600 });
  await page.getByRole('button', { name: 'Close the chat' }).click();
  await button.press('Enter');
  // These end a composition, and only that; in Safari, by their code alone.
  for (const isComposing of [true, false])
    await page.locator('parley-chat textarea:focus').dispatchEvent('keydown', { key: 'Escape', keyCode: 229, isComposing });
  await page.locator('parley-chat textarea:focus').press('Escape', { timeout: 5_000 });
  await button.waitFor();
  assert.equal(await page.getByLabel('Write a message').isVisible(), false);
});

test('a turn that failed is told from what is only remarked; a turn can be stopped', async () => {
  const page = await visit();
  await say(page, '/fail unauthorized');
  await page.locator('parley-chat .notice.failure').waitFor();
  await say(page, '/delay 500\n/words 100');
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.locator('parley-chat .notice:not(.failure)', { hasText: 'Stopped' }).waitFor();
});

test('a message that was refused is written again, before what was written since', async () => {
  const page = await visit();
  const refused = Promise.withResolvers<void>();
  await page.route('**/events', async (route) => {
    await refused.promise;
    await route.fulfill({ status: 400, json: { detail: 'Not this one.' }, headers: { 'access-control-allow-origin': '*' } });
  });
  await say(page, 'first');
  await page.getByLabel('Write a message').fill('second');
  refused.resolve();
  await page.getByText('Not this one.').waitFor();
  assert.equal(await page.getByLabel('Write a message').inputValue(), 'first\nsecond');
});

test('messages that are written faster than they are sent go into one conversation, in order, each with its files', async () => {
  const page = await visit();
  let created = 0;
  await page.route(/\/sessions$|\/files$/, async (route) => {
    if (route.request().method() === 'POST' && route.request().url().endsWith('/sessions')) created += 1;
    await sleep(500);
    await route.continue();
  });
  const chooser = page.waitForEvent('filechooser');
  await page.getByRole('button', { name: 'Attach a file' }).click();
  await (await chooser).setFiles([{ name: 'first.txt', mimeType: 'text/plain', buffer: Buffer.from('first') }]);
  await say(page, '/say to the first');
  await say(page, '/say to the second');
  await answers(page).getByText('to the second').waitFor();
  assert.deepEqual((await answers(page).allTextContents()).slice(1), ['Assistant: to the first', 'Assistant: to the second']);
  assert.deepEqual(await page.locator('parley-chat .user .bubble').allTextContents(), [
    'You: /say to the firstfirst.txt',
    'You: /say to the second',
  ]);
  assert.equal(created, 1);
});

test('a message that is sent while the conversation is loaded is shown once', async () => {
  const page = await visit();
  await say(page, '/say before');
  await answers(page).getByText('before').waitFor();
  await page.route(/\/sessions\/ses_[^/]+$/, async (route) => {
    await sleep(700);
    await route.continue();
  });
  await visit(page);
  await say(page, '/say meanwhile');
  await answers(page).getByText('meanwhile').waitFor();
  assert.deepEqual(await page.locator('parley-chat .user .bubble').allTextContents(), ['You: /say before', 'You: /say meanwhile']);
});

test('a stream that was refused is opened again by the next message that gets through', async () => {
  const page = await visit();
  await say(page, '/say before');
  await answers(page).getByText('before').waitFor();
  const headers = { 'access-control-allow-origin': '*' };
  await page.route('**/events/stream*', (route) => route.fulfill({ status: 403, json: { detail: 'Organization suspended' }, headers }));
  await visit(page);
  await page.getByText('Organization suspended').waitFor();
  await page.unroute('**/events/stream*');
  await say(page, '/say after');
  await answers(page).getByText('after').waitFor();
  assert.equal((await page.locator('parley-chat .status').textContent())?.trim(), '');
  assert.equal(await page.locator('parley-chat .user .bubble').count(), 2);
});

test('a restart of the server in the middle of a turn shows a banner, and then the answer', async () => {
  const page = await visit();
  await say(page, '/delay 100\n/words 25');
  await page.locator('parley-chat .bubble.draft').getByText('a slow').waitFor();
  await server.kill();
  await page.getByText('The connection was lost').waitFor();
  await server.start();
  await answers(page).getByText('a slow river').waitFor();
  await page.getByText('The connection was lost').waitFor({ state: 'hidden' });
  assert.equal(await answers(page).count(), 2);
});

test('the widget passes the checks of accessibility, light and dark, and follows the variables of the page', async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const page = await newVisitor();
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 375, height: 700 });
    await visit(page);
    await say(page, 'Which files do I have?\n/tool bash {"command":"ls"}');
    await page.getByRole('button', { name: 'Approve once' }).waitFor();
    if (colorScheme === 'light') await keepPicture(page.locator('parley-chat .panel'), 'widget-light');
    const violations = await findViolations(page, {}, 'parley-chat');
    assert.deepEqual(
      violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`),
      [],
    );
    assert.equal(await page.evaluate('document.documentElement.scrollWidth <= 375'), true);
    await page.evaluate("document.querySelector('parley-chat').style.setProperty('--parley-user-background', 'rgb(1, 2, 3)')");
    const bubble = "document.querySelector('parley-chat').shadowRoot.querySelector('.user .bubble')";
    assert.equal(await page.evaluate(`getComputedStyle(${bubble}).backgroundColor`), 'rgb(1, 2, 3)');
  }
});
