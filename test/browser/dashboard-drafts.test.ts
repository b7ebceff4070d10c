// What somebody writes in the dashboard: how it gets into its field, and who finds it there later.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createAgent, createOrganization } from '../support/accounts.ts';
import { owner, signIn, startDashboard } from '../support/dashboard.ts';
import { browserOf, password } from '../support/members.ts';
import { until } from '../support/until.ts';

const { app, page, context, problems } = await startDashboard({ after });
const message = page.getByLabel('Message');
const menu = (name: string) => page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true });
const release = page.getByLabel('Release, from 1');

test('text that is dragged into the message goes there, and is not taken for a file', async () => {
  await page.goto('/dashboard/playground/assistant');
  await page.getByText('Talk to Assistant.').selectText();
  await page.getByText('Talk to Assistant.').dragTo(message);
  await until(async () => (await message.inputValue()) === 'Talk to Assistant.');
  await message.fill('');
});

test('of two files of one name both go along with the message', async () => {
  await page.goto('/dashboard/playground/assistant');
  const files = ['first', 'second'].map((content) => ({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from(content) }));
  await page.getByLabel('Files', { exact: true }).setInputFiles(files);
  const read = (path: string) => `/tool files {"operation":"read","path":"uploads/${path}"}`;
  await message.fill(`${read('notes.txt')}\n${read('notes (2).txt')}`);
  await message.press('Enter');
  const log = page.getByRole('log');
  await log.getByText('files answered: second').waitFor();
  await log.getByText('files answered: first').waitFor();
});

test('a digit typed into the message answers nothing', async () => {
  await page.goto('/dashboard/playground/assistant');
  await message.fill('/tool bash {"command":"date"}');
  await message.press('Enter');
  await page.getByRole('button', { name: 'Approve once' }).waitFor();
  await message.pressSequentially('123');
  assert.equal(await message.inputValue(), '123');
  assert.ok(await page.getByRole('button', { name: 'Deny' }).isEnabled());
  await message.fill('');
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('Denied', { exact: true }).waitFor();
});

test('the Enter that ends a composition sends nothing, and its Escape leaves nothing, also where only the code says so', async () => {
  await page.goto('/dashboard/playground/assistant');
  await message.fill('かな');
  for (const key of ['Enter', 'Escape']) await message.dispatchEvent('keydown', { key, keyCode: 229 });
  assert.equal(await page.locator('textarea:focus').inputValue(), 'かな');
  await message.fill('');
});

/** Signs in on the page as it is: a reload would hide what the page itself remembers of somebody else. */
async function signInHere(email: string, secret: string): Promise<void> {
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(secret);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

async function signOut(email: string): Promise<void> {
  await page.getByRole('button', { name: new RegExp(email) }).click();
  // What happens on the page until it is left would be among the problems.
  await page.route('**/dashboard/sign-in', (route) => setTimeout(() => void route.continue(), 300), { times: 1 });
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
}

async function written(): Promise<string[]> {
  await menu('Playground').click();
  const inMessage = await message.inputValue();
  await menu('Agents').click();
  await page.getByRole('link', { name: 'Assistant', exact: true }).click();
  await page.getByRole('button', { name: 'New release' }).click();
  return [inMessage, (await release.inputValue()).includes('Drafted') ? 'Drafted' : ''];
}

test('what somebody wrote outlives a login that ends, but not their signing out, and nobody else finds it in the same tab', async () => {
  await browserOf(app, { id: 0, slug: 'demo', key: app.apiKey }, 'grace@example.com', 'admin');
  await page.goto('/dashboard/agents/assistant?tab=edit');
  await release.fill('{"instructions":"Drafted"}');
  await menu('Playground').click();
  await message.fill("Ada's");
  await context.clearCookies();
  await menu('API keys').click();
  await page.getByRole('button', { name: 'Leave this page' }).click();
  // The page before is not there any more either.
  await page.goBack();
  await signInHere('grace@example.com', password);
  assert.deepEqual(await written(), ['', '']);
  await signOut('grace@example.com');
  await signInHere(owner.email, owner.password);
  assert.deepEqual(await written(), ["Ada's", 'Drafted']);
  await signOut(owner.email);
  assert.equal(await page.evaluate("JSON.stringify(sessionStorage).includes('Drafted')"), false);
  await signInHere(owner.email, owner.password);
  assert.deepEqual(await written(), ['', '']);
});

test('when somebody else signs in in another tab, what is written in this one is gone before they see it', async () => {
  await release.fill('{"instructions":"Half written"}');
  const other = await context.newPage();
  await context.clearCookies();
  await signIn(other, 'grace@example.com', password);
  await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
  await page.getByRole('button', { name: /grace@example.com/ }).waitFor();
  assert.deepEqual([new URL(page.url()).pathname, await written()], ['/dashboard/', ['', '']]);
  await other.close();
});

test('the page that somebody left by signing out is loaded anew if the browser has kept it for its Back button', async () => {
  // The browser of the tests keeps no page, so while it is being left this one is told what it would hear.
  await page.route('**/dashboard/sign-in', () => {}, { times: 1 });
  await page.evaluate("void setInterval(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })), 50)");
  await page.getByRole('button', { name: /grace@example.com/ }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  // Not `waitForURL`, which fails if the navigation that it waits for is replaced by the next.
  await until(async () => page.url().includes('/sign-in?next='));
  await signInHere(owner.email, owner.password);
  await page.getByRole('button', { name: new RegExp(owner.email) }).waitFor();
});

test('what was written for one organization is not in the message to an agent of another one', async () => {
  const second = await createOrganization(app, 'second');
  await createAgent(app, second.key, 'helper');
  const invited = await app.call('POST', '/api/invitations', { key: second.key, body: { email: owner.email, role: 'admin' } });
  await app.call('POST', '/api/invitations/accept', { body: { ...owner, email: undefined, token: invited.body.token } });
  await page.goto('/dashboard/playground');
  await message.fill('for Demo');
  for (const [organization, text] of [
    ['second', ''],
    ['Demo', 'for Demo'],
  ] as const) {
    await page.getByRole('button', { name: new RegExp(owner.email) }).click();
    await page.getByRole('button', { name: organization, exact: true }).click();
    await page.getByRole('button', { name: `${organization} ${owner.email}` }).waitFor();
    await menu('Playground').click();
    assert.equal(await message.inputValue(), text);
  }
  assert.deepEqual(problems, []);
});
