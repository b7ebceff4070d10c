// What a person at the playground sees of a reload, of a server that dies (a banner, then the rest, and nothing missing) and of a
// message that waits.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Route } from 'playwright-core';
import { openBrowser } from '../support/browser.ts';
import { buildDashboardOnce, joinAsOwner, openDashboard } from '../support/dashboard.ts';
import { startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';

buildDashboardOnce();
const server = await startServer({ after }, { settings: { PARLEY_LEASE_MS: '1000' } });
const browser = await openBrowser({ after });
const { page } = await openDashboard(browser, server.url);
await joinAsOwner(page, /join\?token=(\S+)/.exec(server.output())?.[1] ?? '');

const log = () => page.getByRole('log', { name: 'Conversation' });
const seqs = () => page.getByRole('region', { name: 'Events' }).locator('button > span:first-child').allTextContents();

async function say(text: string): Promise<void> {
  await page.getByLabel('Message').fill(text);
  await page.getByLabel('Message').press('Enter');
}

/** Keeps posts to this path waiting, until the returned function says what becomes of them. */
async function hold(path: string): Promise<(answer: (route: Route) => Promise<void>) => Promise<void>> {
  const held: Route[] = [];
  let isOver = false;
  await page.route(path, (route) => (route.request().method() === 'POST' && !isOver ? void held.push(route) : route.continue()));
  return async (answer) => {
    const [route] = held;
    assert.ok(route !== undefined && held.length === 1);
    const answered = page.waitForResponse((response) => response.request() === route.request());
    // The route stays: of a request that is sent just while it is taken away, the response would not be told.
    isOver = true;
    await answer(route);
    await (await answered).finished();
  };
}

test('a reload in the middle of a turn goes on with it', async () => {
  await page.goto('/dashboard/playground/assistant');
  await say('/delay 120\n/say one two three four five six seven eight nine ten');
  await log()
    .getByText(/^one two three/)
    .waitFor();
  await page.reload();
  await log().getByText('one two three four five six seven eight nine ten', { exact: true }).waitFor();
  await page.getByRole('region', { name: 'Events' }).getByText('session.status_idle').waitFor();
  assert.deepEqual(await seqs(), ['1', '2', '3', '4']);
});

test('a server killed in the middle of a turn: a banner, then the turn goes on, and no entry is missing or double', async () => {
  await page.goto('/dashboard/playground/assistant');
  await say('/delay 150\n/say alpha beta gamma delta epsilon zeta eta theta iota kappa');
  await log()
    .getByText(/^alpha beta/)
    .waitFor();
  await server.kill();
  await page.getByText('The server cannot be reached.').waitFor();
  await server.start();
  await page.getByText('Connected again.').waitFor();
  await log().getByText('alpha beta gamma delta epsilon zeta eta theta iota kappa', { exact: true }).waitFor();
  await page.getByRole('region', { name: 'Events' }).getByText('session.status_idle').waitFor();
  const found = await seqs();
  assert.deepEqual(
    found,
    found.map((_, index) => String(index + 1)),
  );
});

test('a message sent while the server is away arrives once, when it is back', async () => {
  await page.goto('/dashboard/playground/assistant');
  await say('/say first');
  await log().getByText('first', { exact: true }).waitFor();
  await server.stop();
  await say('/say second');
  await page.getByText('The server cannot be reached.').waitFor();
  await log().getByText('/say second').waitFor();
  await log().getByText('Sending…').waitFor();
  await server.start();
  await log().getByText('second', { exact: true }).waitFor();
  await page.getByRole('region', { name: 'Events' }).getByText('session.status_idle').nth(1).waitFor();
  assert.equal(await log().getByText('/say second').count(), 1);
});

test('a message that could not be sent is back in the field after a reload, before what was written since', async () => {
  await page.goto('/dashboard/playground/assistant');
  await page.route('**/managed-agents/sessions', (route) => route.abort());
  await say('not sent');
  await log().getByText('not sent').waitFor();
  await page.getByLabel('Message').fill('written since');
  await page.reload();
  assert.equal(await page.getByLabel('Message').inputValue(), 'not sent\nwritten since');
  await page.unrouteAll();
  await page.getByLabel('Message').fill('');
});

test('whoever goes elsewhere while the server takes its time stays there when it is done', async () => {
  const answer = await hold('**/managed-agents/sessions');
  await page.goto('/dashboard/playground/assistant');
  await say('/say meanwhile');
  await page.getByRole('link', { name: 'Agents', exact: true }).click();
  await page.getByRole('button', { name: 'New agent' }).waitFor();
  const sent = page.waitForResponse('**/events');
  await answer((route) => route.continue());
  await sent;
  assert.equal(new URL(page.url()).pathname, '/dashboard/agents');

  const created = await hold('**/api/agents');
  await page.getByRole('button', { name: 'New agent' }).click();
  await page.getByLabel('Slug').fill('slow');
  await page.getByRole('button', { name: 'Create agent' }).click();
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByRole('button', { name: 'New key' }).waitFor();
  await created((route) => route.continue());
  // Long enough for the page that would follow.
  await assert.rejects(page.waitForURL('**/agents/slow*', { timeout: 500 }));
  assert.equal(new URL(page.url()).pathname, '/dashboard/keys');
});

test('a session that is opened late does not take the place of the one that the person has gone back to', async () => {
  await page.goto('/dashboard/playground/assistant');
  await say('/say here');
  await log().getByText('here', { exact: true }).waitFor();
  const here = page.url();
  const answer = await hold('**/managed-agents/sessions');
  await page.getByRole('button', { name: 'New session' }).click();
  await say('/say later');
  await page.goBack();
  await log().getByText('here', { exact: true }).waitFor();
  const sent = page.waitForResponse('**/events');
  await answer((route) => route.continue());
  await sent;
  assert.equal(page.url(), here);
});

test('a turn is stopped once, however long the answer takes, and meanwhile that of another session can be', async () => {
  const stop = page.getByRole('button', { name: 'Stop' });
  const disabled = page.locator('[aria-disabled]', { hasText: 'Stop' });
  await page.goto('/dashboard/playground/assistant');
  await say('/delay 200\n/words 200');
  await stop.waitFor();
  await page.getByRole('button', { name: 'New session' }).click();
  await say('/delay 200\n/words 200');
  await stop.waitFor();
  const stopped = await hold('**/events');
  await stop.click();
  await disabled.waitFor();
  await page.goBack();
  await page.locator('button:not([aria-disabled])', { hasText: 'Stop' }).waitFor();
  await page.goForward();
  await disabled.waitFor();
  await stopped((route) => route.continue());
  await log().getByText('Stopped').waitFor();
  await page.goBack();
  await stop.click();
  await log().getByText('Stopped').waitFor();
});

test('a message that is refused when the playground was left and opened again is back in its field', async () => {
  const answer = await hold('**/managed-agents/sessions');
  await page.goto('/dashboard/playground/assistant');
  await say('refused later');
  await page.getByRole('link', { name: 'Agents', exact: true }).click();
  await page.getByRole('link', { name: 'Playground', exact: true }).click();
  await page.getByLabel('Message').fill('written since');
  await answer((route) => route.fulfill({ status: 402, json: { detail: 'Used up.' } }));
  await page.getByText('Used up.').waitFor();
  assert.equal(await page.getByLabel('Message').inputValue(), 'refused later\nwritten since');
  await page.getByLabel('Message').fill('');
});

test('a message that is sent during a turn is shown while it waits, and takes whoever sent it to the end', async () => {
  await page.goto('/dashboard/playground/assistant');
  await say('/words 900');
  await page.getByRole('region', { name: 'Events' }).getByText('session.status_idle').waitFor();
  await say('/delay 1000\n/words 60');
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  await page.evaluate("document.querySelector('[role=log]').scrollTop = 0");
  await say('/say next');
  await log().getByText('Waiting for the current turn to end…').waitFor();
  const distance = await page.evaluate<number>(`(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight)(
    document.querySelector('[role=log]'))`);
  assert.ok(distance < 2, `${distance} px from the end`);
  await page.getByRole('button', { name: 'Stop' }).click();
  await log().getByText('next', { exact: true }).waitFor();
  assert.equal(await log().getByText('/say next').count(), 1);
  assert.equal(await log().getByText('Waiting for the current turn to end…').count(), 0);
});

test('what somebody has selected in an answer, and how far they scrolled its code, stays while the rest is written', async () => {
  await page.goto('/dashboard/playground/assistant');
  const answer = ['```', `const wide = '${'wide'.repeat(80)}';`, '```', 'some **bold** words and then a b c d e f g h i j k l m'];
  await say(`/delay 250\n${answer.map((line) => `/say ${line}`).join('\n')}`);
  await log()
    .locator('.prose')
    .getByText(/words and then/)
    .waitFor();
  await page.evaluate(`(() => {
    document.querySelector('[role=log] pre').scrollLeft = 100;
    getSelection().selectAllChildren(document.querySelector('[role=log] .prose strong'));
  })()`);
  await log()
    .locator('.prose')
    .getByText(/then a b c/)
    .waitFor();
  const kept = "[getSelection().toString(), document.querySelector('[role=log] pre').scrollLeft]";
  assert.deepEqual(await page.evaluate(kept), ['bold', 100]);
  await log()
    .locator('.prose')
    .getByText(/k l m$/)
    .waitFor();
});

test('a tool call that is opened stays where it was clicked; once it is closed, the end is followed again', async () => {
  await page.goto('/dashboard/playground/assistant');
  await say('/words 600');
  await page.getByRole('region', { name: 'Events' }).getByText('session.status_idle').waitFor();
  await say(`/tool files {"operation":"list","path":".","note":"${'long '.repeat(200)}"}`);
  const call = log().locator('summary').last();
  await call.getByText('done').waitFor();
  await log()
    .getByText(/\d tokens, \d/)
    .nth(1)
    .waitFor();
  const measure = (what: string) =>
    page.evaluate<number>(`(({ scrollHeight, scrollTop, clientHeight }) => ${what})(
    document.querySelector('[role=log]'))`);
  const distance = () => measure('scrollHeight - scrollTop - clientHeight');
  await until(async () => (await distance()) < 2);
  const top = await measure('scrollTop');
  await call.click();
  await log().getByText('"operation"', { exact: true }).waitFor();
  await until(async () => (await distance()) > 60);
  assert.equal(await measure('scrollTop'), top);
  await call.click();
  await until(async () => (await distance()) < 2);
  await say('/words 200');
  await page.getByRole('region', { name: 'Events' }).getByText('session.status_idle').nth(2).waitFor();
  await until(async () => (await distance()) < 2);
});

test('a network that is gone without a word is noticed, and what waited for an answer is asked again', async () => {
  await page.goto('/dashboard/agents');
  await page.getByRole('link', { name: 'Assistant', exact: true }).waitFor();
  await page.route('**/*', () => {});
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByText('The server cannot be reached.').waitFor();
  await page.unrouteAll();
  await page.getByText('Connected again.').waitFor();
  await page.getByRole('cell', { name: 'First key', exact: true }).waitFor();
});

test('a list that is not read at an interval is read again after a failure of the server, or too many requests', async () => {
  const refuse = (path: string, status: number, times = 1) =>
    page.route(path, (route) => route.fulfill({ status, json: { detail: 'Not now.' }, headers: { 'retry-after': '0.1' } }), { times });
  const refusal = page.getByRole('alert').getByText('Not now.');
  await refuse('**/api/invitations?*', 500);
  await refuse('**/api/members?*', 429, 6);
  await page.goto('/dashboard/settings/members');
  await refusal.nth(1).waitFor();
  await refusal.first().waitFor({ state: 'detached' });
});

test('the overview names what it could not read, also while that is read again, and takes it neither for nothing nor for new', async () => {
  const refuse = (route: Route) => route.fulfill({ status: 500, json: { detail: 'Not now.' } });
  const alert = (text: string) => page.getByRole('alert').getByText(text, { exact: true });
  let asked = 0;
  await page.route('**/api/webhook_endpoints', async (route) => {
    asked += 1;
    // The second is never answered.
    if (asked === 1) await refuse(route);
  });
  await page.goto('/dashboard/');
  const first = await alert('The webhook endpoints could not be read.').elementHandle();
  for (const path of ['**/dashboard/api/overview', '**/api/sessions?limit=8']) await page.route(path, refuse, { times: 1 });
  await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
  await alert('The last hour could not be read again.').waitFor();
  await alert('The sessions could not be read again.').waitFor();
  assert.equal(asked, 2);
  assert.ok(await first?.isVisible());
  assert.equal(await page.getByText('Not now.').count(), 3);
  await page.unrouteAll();
});
