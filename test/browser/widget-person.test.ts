// <parley-chat> on a page that goes on when its visitor leaves a conversation, or when somebody else signs in: nobody sees or sends what is
// not theirs.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { ParleyClient } from '../../client/src/index.ts';
import { openBrowser } from '../support/browser.ts';
import { buildWidget } from '../support/build-widget.ts';
import { startExample } from '../support/example.ts';
import { startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';

buildWidget();
const server = await startServer({ after });
const shop = await startExample({ after }, 'widget', server.url);
const browser = await openBrowser({ after });
const backend = new ParleyClient({ baseUrl: server.url, apiKey: server.apiKey, agent: 'demo/assistant' });

const field = (page: Page) => page.getByLabel('Write a message');
const answers = (page: Page) => page.locator('parley-chat .agent .bubble:not(.draft)');
const said = (page: Page) => page.locator('parley-chat .user .bubble');

const stored = (page: Page) => page.evaluate('Object.values(localStorage)');

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

/** Runs this with the element as `chat`, and waits until it is drawn: what was written sooner would go to the chat before. */
const change = (page: Page, script: string) =>
  page.evaluate(`(async (chat) => { ${script}; await chat.updateComplete; })(document.querySelector('parley-chat'))`);

async function tokenOf(endUser: string | undefined): Promise<string> {
  const { token } = await backend.mintSessionToken(endUser === undefined ? {} : { end_user_id: endUser });
  return token;
}

/** Whether a message that begins so was sent to the agent. */
async function isSent(start: string): Promise<boolean> {
  const { sessions } = await backend.sessions.list({ per_page: 100 });
  const transcripts = await Promise.all(sessions.map(({ id }) => backend.sessions.transcript(id)));
  return transcripts.some(({ messages }) => messages.some(({ role, text }) => role === 'user' && text.startsWith(start)));
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
  assert.equal(await isSent('/say never mind'), false);
});

test('another end user of the page gets an empty field, and who comes back what they had written', async () => {
  const page = await visit();
  const token = await tokenOf(undefined);
  await change(page, `chat.tokenUrl = undefined; chat.token = '${token}'; chat.endUser = 'ada-0123456789'`);
  await say(page, '/say for Ada');
  await answers(page).getByText('for Ada').waitFor();
  await attach(page, 'ada.txt');
  await field(page).fill('half a thought');
  await change(page, "chat.endUser = 'bob-0123456789'");
  await said(page).first().waitFor({ state: 'detached' });
  assert.deepEqual([await field(page).inputValue(), await page.getByText('ada.txt').count()], ['', 0]);
  await say(page, '/say for Bob');
  await answers(page).getByText('for Bob').waitFor();
  // What the one before is still sending does not keep it from being shown.
  const sending = page.waitForRequest(/\/events$/);
  await page.route(/\/events$/, () => {});
  await say(page, '/say held up');
  await sending;
  await change(page, "chat.endUser = 'ada-0123456789'");
  await answers(page).getByText('for Ada').waitFor();
  assert.equal(await field(page).inputValue(), 'half a thought');
});

test('a token of somebody else empties the field and the conversation; one of the same person, or of a visitor who signs in, does not', async () => {
  const page = await visit();
  const give = async (endUser: string | undefined) => change(page, `chat.token = '${await tokenOf(endUser)}'`);
  await change(page, 'chat.tokenUrl = undefined');
  await give(undefined);
  await field(page).fill('whoever I am');
  await give('ada');
  assert.equal(await field(page).inputValue(), 'whoever I am');
  await say(page, '/say to Ada');
  await answers(page).getByText('to Ada').waitFor();
  await attach(page, 'ada.txt');
  await field(page).fill('half a thought');
  await give('ada');
  await answers(page).getByText('to Ada').waitFor();
  assert.deepEqual([await field(page).inputValue(), await page.getByText('ada.txt').count()], ['half a thought', 1]);
  await give('bob');
  await said(page).first().waitFor({ state: 'detached' });
  assert.deepEqual([await field(page).inputValue(), await page.getByText('ada.txt').count()], ['', 0]);
  await page.reload();
  await field(page).waitFor();
  assert.equal(await field(page).inputValue(), '');
});

test('where the page fetches tokens, the first one of somebody else does the same, and no message that still waits is sent for them', async () => {
  const page = await visit();
  await page.exposeFunction('mint', tokenOf);
  await change(page, "globalThis.person = 'ada'; chat.tokenUrl = undefined; chat.tokenProvider = () => mint(person)");
  await say(page, '/say of Ada');
  await answers(page).getByText('of Ada').waitFor();
  const messages = /\/events$/;
  let isAway = true;
  const refused = { status: 401, json: { detail: 'Expired' }, headers: { 'access-control-allow-origin': '*' } };
  await page.route(messages, (route) => (isAway ? route.abort() : route.fulfill(refused)));
  await say(page, '/say waiting');
  await say(page, '/say waiting too');
  await page.getByText('The connection was lost').waitFor();
  await field(page).fill('half a thought');
  await page.evaluate("globalThis.person = 'bob'");
  isAway = false;
  await until(async () => (await field(page).inputValue()) === '', 10_000, 'the field is empty');
  assert.equal(await said(page).count(), 0);
  await page.unroute(messages);
  await say(page, '/say of Bob');
  await answers(page).getByText('of Bob').waitFor();
  assert.deepEqual(await said(page).allTextContents(), ['You: /say of Bob']);
  assert.equal(await field(page).inputValue(), '');
  assert.equal(await isSent('/say waiting'), false);
});

test('what becomes of the stop button that somebody pressed before they left is not said to the next one', async () => {
  const page = await visit();
  const token = await tokenOf(undefined);
  await change(page, `chat.tokenUrl = undefined; chat.token = '${token}'; chat.endUser = 'ada-0123456789'`);
  await say(page, '/delay 500\n/words 100');
  const stop = page.getByRole('button', { name: 'Stop' });
  await stop.waitFor();
  const pressed = Promise.withResolvers<Route>();
  await page.route(/\/events$/, (route) => pressed.resolve(route));
  await stop.click();
  const route = await pressed.promise;
  await change(page, "chat.endUser = 'bob-0123456789'");
  await said(page).first().waitFor({ state: 'detached' });
  const answered = page.waitForResponse(/\/events$/);
  await route.fulfill({ status: 401, json: { detail: 'Expired' }, headers: { 'access-control-allow-origin': '*' } });
  await answered;
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 300))');
  assert.equal(await page.getByText('Expired').count(), 0);
});

test('where the page gives another source of tokens, or the same element anew, whose they are is found out at once, before the next one writes', async () => {
  for (const give of ['chat.tokenProvider = () => mint(person)', 'chat.remove(); document.body.append(chat)']) {
    const page = await visit();
    await page.exposeFunction('mint', tokenOf);
    await change(page, "globalThis.person = 'ada'; chat.tokenUrl = undefined; chat.tokenProvider = () => mint(person)");
    await say(page, '/say of Ada');
    await answers(page).getByText('of Ada').waitFor();
    // From here on no conversation is stored that would have to be read with a token.
    await page.getByRole('button', { name: 'New conversation' }).click();
    await field(page).fill('half a thought');
    await change(page, `person = 'bob'; ${give}`);
    await until(async () => (await field(page).inputValue()) === '', 5_000, `the field is empty: ${give}`);
    await say(page, '/say my first');
    await answers(page).getByText('my first').waitFor({ timeout: 5_000 });
  }
});

test('a source that names somebody else each time, as where cookies are blocked, is not asked without end, and they can write', async () => {
  const page = await visit();
  let asked = 0;
  await page.exposeFunction('mint', () => {
    asked += 1;
    return tokenOf(`visitor-${asked}`);
  });
  await change(page, 'chat.tokenUrl = undefined; chat.tokenProvider = () => mint()');
  await say(page, '/say of the first');
  await answers(page).getByText('of the first').waitFor();
  await change(page, 'chat.tokenProvider = () => mint()');
  await said(page).first().waitFor({ state: 'detached' });
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 500))');
  assert.equal(asked, 2);
  await say(page, '/say of the second');
  await answers(page).getByText('of the second').waitFor({ timeout: 5_000 });
  assert.equal(asked, 2);
});

test('a late token of a source that was replaced sends what waits for it if it is of the same person, and is not heard otherwise', async () => {
  const page = await visit();
  await page.exposeFunction('mint', tokenOf);
  const give = (provider: string) => change(page, `chat.tokenUrl = undefined; chat.tokenProvider = () => ${provider}`);
  const giveLate = async () => {
    await page.evaluate('globalThis.late = Promise.withResolvers()');
    await give('late.promise');
  };
  await give("mint('bob')");
  await say(page, '/say of Bob');
  await answers(page).getByText('of Bob').waitFor();
  await giveLate();
  await say(page, '/say waiting for it');
  await give("mint('bob')");
  await page.evaluate("late.resolve(mint('bob'))");
  await answers(page).getByText('waiting for it').waitFor({ timeout: 5_000 });
  await giveLate();
  await give("mint('bob')");
  await answers(page).getByText('of Bob').waitFor();
  const ofBob = await stored(page);
  await page.evaluate("late.resolve(mint('ada'))");
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 300))');
  assert.deepEqual(await stored(page), ofBob);
  assert.deepEqual(await said(page).allTextContents(), ['You: /say of Bob', 'You: /say waiting for it']);
});

test('of the tokens of one source, one that was asked for before another person signed in and comes after does not bring the former back', async () => {
  const page = await visit();
  await page.exposeFunction('mint', tokenOf);
  await page.evaluate('globalThis.late = Promise.withResolvers(); globalThis.answers = [late.promise]');
  await change(page, "chat.tokenUrl = undefined; chat.tokenProvider = () => answers.shift() ?? mint('bob')");
  await say(page, '/say asked for as Ada');
  await until(async () => (await page.evaluate('answers.length')) === 0, 5_000, 'the first token is asked for');
  await change(page, 'chat.remove(); document.body.append(chat)');
  await say(page, '/say of Bob');
  await answers(page).getByText('of Bob').waitFor({ timeout: 5_000 });
  const ofBob = await stored(page);
  await page.evaluate("late.resolve(mint('ada'))");
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 300))');
  assert.deepEqual(await stored(page), ofBob);
  assert.deepEqual(await said(page).allTextContents(), ['You: /say of Bob']);
});

test('a first message that waits for a token while the element is moved is shown once it is sent', async () => {
  const page = await visit();
  await page.exposeFunction('mint', tokenOf);
  await page.evaluate('globalThis.late = Promise.withResolvers()');
  await change(page, 'chat.tokenUrl = undefined; chat.tokenProvider = () => late.promise');
  await say(page, '/say moved');
  await change(page, 'chat.remove(); document.body.append(chat)');
  await page.evaluate("late.resolve(mint('ada'))");
  await answers(page).getByText('moved').waitFor({ timeout: 5_000 });
  assert.deepEqual(await said(page).allTextContents(), ['You: /say moved']);
});

test('a session that is made for somebody who has left meanwhile is not remembered in place of that of the next one', async () => {
  for (const give of ['chat.token = await mint(person)', 'chat.tokenProvider = () => mint(person)']) {
    const page = await visit();
    await page.exposeFunction('mint', async (person: string) => tokenOf(person));
    const signIn = (person: string) => change(page, `const person = '${person}'; chat.tokenUrl = undefined; ${give}`);
    await signIn('ada');
    const sessions = /\/managed-agents\/sessions$/;
    const held = Promise.withResolvers<void>();
    await page.route(sessions, (route) => held.promise.then(() => route.continue()), { times: 1 });
    const asked = page.waitForRequest(sessions);
    await say(page, '/say of Ada, too late');
    const request = await asked;
    await field(page).fill('half a thought');
    await signIn('bob');
    await until(async () => (await field(page).inputValue()) === '', 5_000, 'the field is empty');
    await say(page, '/say of Bob');
    await answers(page).getByText('of Bob').waitFor({ timeout: 5_000 });
    const ofBob = await stored(page);
    held.resolve();
    assert.equal((await request.response())?.status(), 201);
    await page.evaluate('new Promise((resolve) => setTimeout(resolve, 300))');
    assert.deepEqual(await stored(page), ofBob, give);
  }
});

test('a visitor of the same shop sees nothing of what another one said', async () => {
  const page = await visit();
  await say(page, '/say a secret');
  await answers(page).getByText('a secret').waitFor();
  const session = String(await page.evaluate('Object.values(localStorage)[0]'));
  const other = await visit();
  await other.evaluate(`localStorage.setItem(${JSON.stringify(await page.evaluate('Object.keys(localStorage)[0]'))}, '${session}')`);
  await other.reload();
  await say(other, '/say mine');
  await answers(other).getByText('mine').waitFor();
  assert.equal(await said(other).count(), 1);
});
