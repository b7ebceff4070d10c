// <parley-chat> and the page around it: its backend that gives no token, the element that it moves or replaces, what it sends by itself;
// the same page in another tab.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { ParleyClient } from '../../client/src/index.ts';
import { patienceMs } from '../../widget/src/chat.ts';
import { openAsNewVisitor, openBrowser } from '../support/browser.ts';
import { buildWidget } from '../support/build-widget.ts';
import { startExample } from '../support/example.ts';
import { startServer } from '../support/server-process.ts';
import { showTab } from '../support/show-tab.ts';
import { until } from '../support/until.ts';

buildWidget();
const server = await startServer({ after });
const shop = await startExample({ after }, 'widget', server.url);
const backend = new ParleyClient({ baseUrl: server.url, apiKey: server.apiKey, agent: 'demo/assistant' });
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

/** Does this with the element, as `chat`. */
const change = (page: Page, script: string) =>
  page.evaluate(`(async (chat) => { ${script}; await chat.updateComplete; })(document.querySelector('parley-chat'))`);

/** As a page made of components does that goes somewhere else. */
const replaced = 'chat.replaceWith(chat.cloneNode())';
const moved = 'chat.remove(); document.body.append(chat)';

/** Holds up the requests to this path until they may go on, with this answer if there is one. */
async function hold(page: Page, path: RegExp, answer?: object): Promise<{ asked: Promise<unknown>; release(): void; count(): number }> {
  const released = Promise.withResolvers<void>();
  const asked = page.waitForRequest((request) => request.method() === 'POST' && path.test(request.url()));
  let count = 0;
  await page.route(path, async (route) => {
    if (route.request().method() === 'POST') count += 1;
    await released.promise;
    await (answer === undefined ? route.continue() : route.fulfill(answer));
  });
  return { asked, release: released.resolve, count: () => count };
}

/** Does not wait until it is sent. */
async function sendByPage(page: Page, text: string): Promise<void> {
  // Not before the field takes text.
  await field(page).fill('');
  await change(page, `void chat.send('${text}')`);
}

const sessions = /\/managed-agents\/sessions$/;

test('a first message that is on its way when its element is replaced is shown by the new one, not written again, and its draft is kept', async () => {
  const page = await visit();
  const held = await hold(page, sessions);
  await say(page, '/say on its way');
  await held.asked;
  await field(page).fill('half a thought');
  await change(page, replaced);
  await until(async () => (await field(page).inputValue()) !== '', 5_000, 'the draft is there');
  assert.equal(await field(page).inputValue(), 'half a thought');
  await field(page).fill('half a thought, and more');
  held.release();
  await answers(page).getByText('on its way').waitFor({ timeout: 5_000 });
  assert.equal(await field(page).inputValue(), 'half a thought, and more');
  await page.reload();
  await answers(page).getByText('on its way').waitFor();
  assert.deepEqual(
    [await said(page).allTextContents(), await field(page).inputValue()],
    [['You: /say on its way'], 'half a thought, and more'],
  );
});

test('a message that is refused after its element was replaced is written again in the new one, which says why', async () => {
  const page = await visit();
  const refusal = { status: 400, json: { detail: 'Not this one.' }, headers: { 'access-control-allow-origin': '*' } };
  const held = await hold(page, /\/events$/, refusal);
  await say(page, 'first');
  await held.asked;
  await change(page, replaced);
  await field(page).fill('second');
  held.release();
  await page.getByText('Not this one.').waitFor({ timeout: 5_000 });
  assert.equal(await field(page).inputValue(), 'first\nsecond');
  await page.reload();
  await field(page).waitFor();
  await until(async () => (await field(page).inputValue()) === 'first\nsecond', 5_000, 'both are kept');
});

test('what is written while a first message is on its way, after its element was moved or replaced, goes on with its conversation', async () => {
  for (const how of [moved, replaced])
    for (const send of [say, sendByPage]) {
      const page = await visit();
      // However long it takes, the second message waits for the first.
      await page.evaluate(`globalThis.setTimeout = ((timer) => (done, ms) => ms === ${patienceMs} ? 0 : timer(done, ms))(setTimeout)`);
      const held = await hold(page, sessions);
      await send(page, '/say one');
      await held.asked;
      await change(page, how);
      await send(page, '/say two');
      held.release();
      await answers(page).getByText('two').waitFor({ timeout: 5_000 });
      await say(page, '/say three');
      await answers(page).getByText('three').waitFor({ timeout: 5_000 });
      const expected = ['one', 'two', 'three'];
      assert.deepEqual(
        (await answers(page).allTextContents()).slice(1),
        expected.map((text) => `Assistant: ${text}`),
        how,
      );
      assert.deepEqual(
        await said(page).allTextContents(),
        expected.map((text) => `You: /say ${text}`),
        how,
      );
      assert.equal(held.count(), 1);
      await page.close();
    }
});

test('two first messages that are on their way for long, of a former chat of the element and of its new one, meet in one conversation', async () => {
  const page = await visit();
  const held = await hold(page, sessions);
  await say(page, '/say one');
  await change(page, moved);
  await say(page, '/say two');
  await until(async () => held.count() === 2, 5_000, 'the second waits no longer for the first');
  held.release();
  for (const text of ['one', 'two']) await answers(page).getByText(text).waitFor({ timeout: 5_000 });
  assert.equal(await said(page).count(), 2);
});

test('what the page sends goes to the person who is there now, as soon as their chat is', async () => {
  const page = await visit();
  await change(page, "const made = chat.cloneNode(); chat.replaceWith(made); await made.send('/say at once')");
  await answers(page).getByText('at once').waitFor({ timeout: 5_000 });
  await page.exposeFunction('mint', async (endUser: string) => (await backend.mintSessionToken({ end_user_id: endUser })).token);
  await change(page, "chat.tokenUrl = undefined; chat.token = await mint('ada')");
  await change(page, "chat.token = await mint('bob'); await chat.send('/say for Bob')");
  await answers(page).getByText('for Bob').waitFor({ timeout: 5_000 });
  assert.deepEqual(await said(page).allTextContents(), ['You: /say for Bob']);
});

test('what the page sends is kept until it is sent, and what cannot be sent is told, and written again where there is a field', async () => {
  const page = await visit();
  const send = (script: string) =>
    page.evaluate(`(async (chat) => { ${script};
    return chat.send('wanted').catch(({ message }) => message); })(document.querySelector('parley-chat'))`);
  const refusal = { status: 400, json: { detail: 'Not this one.' }, headers: { 'access-control-allow-origin': '*' } };
  const held = await hold(page, /\/events$/, refusal);
  const refused = send('');
  await held.asked;
  assert.deepEqual(await page.evaluate('Object.values(sessionStorage)'), ['wanted']);
  held.release();
  assert.equal(await refused, 'Not this one.');
  await until(async () => (await field(page).inputValue()) === 'wanted', 5_000, 'it is in the field');
  assert.match(String(await send('chat.tokenUrl = undefined')), /has no session token/);
  assert.match(String(await send("chat.agent = ''")), /has no agent/);
  assert.match(String(await send('chat.remove()')), /not on the page/);
});

test('a tab that finds out late that somebody else is there now goes on with the conversation that they have begun in another one', async () => {
  const page = await visit();
  await say(page, '/say of the first');
  await answers(page).getByText('of the first').waitFor({ timeout: 5_000 });
  const late = await context.newPage();
  await late.goto(shop);
  await answers(late).getByText('of the first').waitFor({ timeout: 5_000 });
  await context.clearCookies();
  await page.reload();
  await say(page, '/say of the second');
  await answers(page).getByText('of the second').waitFor({ timeout: 5_000 });
  const refused = { status: 401, json: { detail: 'Expired' }, headers: { 'access-control-allow-origin': '*' } };
  await late.route(/\/events$/, (route) => route.fulfill(refused), { times: 1 });
  await say(late, 'not of the second');
  await answers(late).getByText('of the second').waitFor({ timeout: 5_000 });
  assert.deepEqual(await said(late).allTextContents(), ['You: /say of the second']);
  await page.reload();
  await answers(page).getByText('of the second').waitFor({ timeout: 5_000 });
});

test('with the chat open in six tabs, a seventh shows it too, and each goes on when it is looked at again, also with an answer half written', async () => {
  const first = await visit();
  await say(first, '/say from the first day');
  const tabs = [first];
  for (let tab = first; ; tabs.push(tab)) {
    await answers(tab).getByText('from the first day').waitFor();
    if (tabs.length === 6) break;
    tab = await context.newPage();
    await tab.goto(shop);
  }
  for (const tab of tabs) await showTab(tab, false);
  const seventh = await context.newPage();
  await seventh.goto(shop);
  await answers(seventh).getByText('from the first day').waitFor();
  await showTab(seventh, false);
  await showTab(first, true);
  await first.evaluate(`globalThis.drafts = []; const { shadowRoot } = document.querySelector('parley-chat');
    const note = () => drafts.push(shadowRoot.querySelector('.draft')?.textContent ?? '');
    new MutationObserver(note).observe(shadowRoot, { childList: true, subtree: true, characterData: true })`);
  await say(first, '/delay 1000\n/say one two three four five six seven eight nine ten');
  const draft = first.locator('parley-chat .bubble.draft');
  await draft.getByText('one two').waitFor();
  await showTab(first, false);
  await draft.getByText('one').waitFor({ state: 'hidden' });
  await showTab(first, true);
  await answers(first).getByText('one two three four five six seven eight nine ten').waitFor();
  assert.deepEqual(await first.evaluate('drafts.filter((text) => /one.*one/s.test(text))'), []);
});

const picture = (content: string) => `data.items.add(new File(['${content}'], 'image.png', { type: 'image/png' }))`;

/** Pastes what the script puts into `data`; returns whether the browser is left to paste it as text. */
const paste = (page: Page, script: string) =>
  page.evaluate<boolean>(`(() => {
    const data = new DataTransfer();
    ${script};
    const paste = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
    return document.querySelector('parley-chat').shadowRoot.querySelector('textarea').dispatchEvent(paste);
  })()`);

test('two pasted pictures, which have one name, are two files', async () => {
  const page = await visit();
  // As a browser copies an image: without plain text.
  assert.equal(await paste(page, `${picture('first')}; data.setData('text/html', '<img>')`), false);
  assert.equal(await paste(page, picture('second')), false);
  const read = (name: string) => `/tool files {"operation":"read","path":"uploads/${name}"}`;
  await say(page, `${read('image.png')}\n${read('image (2).png')}`);
  await answers(page).getByText('second').waitFor();
  assert.match((await answers(page).last().textContent()) ?? '', /first.*second/s);
  assert.deepEqual(await said(page).locator('.file').allTextContents(), ['image.png', 'image (2).png']);
});

test('text that is copied in an office program is pasted as text, without the picture of it that comes along', async () => {
  const page = await visit();
  const cells = "data.setData('text/plain', '1'); data.setData('text/html', '<td>1')";
  assert.equal(await paste(page, `${picture('cells')}; ${cells}`), true);
  await page.evaluate("document.querySelector('parley-chat').updateComplete");
  assert.equal(await page.getByText('image.png').count(), 0);
});

test('what an agent asks to do is shown whole, however long its words are', async () => {
  const page = await visit();
  await page.setViewportSize({ width: 360, height: 700 });
  await say(page, `/tool bash {"command":"echo ${'unbroken'.repeat(40)}"}`);
  const card = page.getByRole('group', { name: /Approval needed: bash/ });
  await card.waitFor();
  const log = "const log = document.querySelector('parley-chat').shadowRoot.querySelector('.log')";
  assert.equal(await page.evaluate(`${log}; log.scrollWidth - log.clientWidth`), 0);
  await card.getByRole('button', { name: 'Deny' }).click();
});
