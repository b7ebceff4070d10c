// What an operator does now and then: puts an agent on a page, invites, looks through what is longer than a page.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { createAgent, createOrganization, operate } from '../support/accounts.ts';
import { apiKey } from '../support/app.ts';
import { buildWidget } from '../support/build-widget.ts';
import { openDashboard, overflow, owner, signIn, startDashboard } from '../support/dashboard.ts';
import { serveLocally } from '../support/local-server.ts';
import { browserOf, password } from '../support/members.ts';

buildWidget();
const { app, url, browser, page, context, problems } = await startDashboard({ after });
const dialog = () => page.getByRole('dialog');

test('the code of the widget is shown for an agent, and with a token in it works on a page of another origin', async () => {
  await page.goto('/dashboard/agents/assistant');
  await page.getByRole('button', { name: 'Widget' }).click();
  await dialog().locator('pre').getByText(`src="${url}/widget/parley-chat.js"`).waitFor();
  await dialog().locator('pre').getByText('org="demo" agent="assistant" token-url="/token"').waitFor();
  await dialog().getByLabel('End user').fill('user_42');
  await page.keyboard.press('Enter');
  await dialog().getByText('expires in 15 min').waitFor();
  await page.setViewportSize({ width: 320, height: 740 });
  assert.equal(await overflow(page), 0);
  await page.setViewportSize({ width: 1280, height: 800 });
  const code = (await dialog().locator('pre').textContent()) ?? '';
  await page.keyboard.press('Escape');
  const shop = await serveLocally((_request, response) => response.setHeader('content-type', 'text/html').end(`<!doctype html>${code}`));
  after(() => shop.close());
  const visitor = await browser.newPage();
  await visitor.goto(shop.origin);
  await visitor.getByLabel('Write a message').fill('/say from the shop');
  await visitor.keyboard.press('Enter');
  await visitor.locator('parley-chat .agent').getByText('from the shop', { exact: true }).waitFor();
  await visitor.close();
  const { body } = await app.request('GET', '/dashboard/api/sessions?q=user_42');
  assert.equal(body.data.length, 1);
});

test('lists that have several pages are shown and chosen from as a whole', async () => {
  for (const slug of ['second', 'third']) await createAgent(app, apiKey, slug);
  await browserOf(app, { id: 1, slug: 'demo', key: apiKey }, 'grace@example.com', 'owner');
  for (const email of ['alan@example.com', 'kurt@example.com']) await app.request('POST', '/api/invitations', { email, role: 'member' });
  for (const name of ['openai', 'anthropic'])
    await app.request('PUT', `/api/model_credentials/${name}`, { api_key: 'sk-0123456789abcdef' });
  await page.route('**/api/*?limit=200*', (route) => route.continue({ url: route.request().url().replace('limit=200', 'limit=1') }));
  const choices = (label: string) => page.getByLabel(label, { exact: true }).locator('option').allTextContents();
  await page.goto('/dashboard/settings/members');
  for (const email of ['alan@example.com', 'kurt@example.com', owner.email]) await page.getByText(email).first().waitFor();
  // Not the last owner, as the first page alone would have it.
  const isOff = await page
    .getByRole('row', { name: /grace@example/ })
    .getByRole('button', { name: 'Remove' })
    .isDisabled();
  assert.equal(isOff, false);
  await page.goto('/dashboard/settings/models');
  for (const name of ['openai', 'anthropic']) await page.getByRole('cell', { name, exact: true }).waitFor();
  for (const path of ['sessions', 'playground/third', 'settings/organization']) {
    await page.goto(`/dashboard/${path}`);
    const label = path.startsWith('settings') ? 'Default agent' : 'Agent';
    await page.getByLabel(label, { exact: true }).locator('option', { hasText: 'third' }).waitFor({ state: 'attached' });
    assert.deepEqual((await choices(label)).slice(-3), ['Assistant', 'second', 'third'], path);
  }
  await page.goto('/dashboard/audit');
  await page.getByLabel('Person').locator('option', { hasText: 'grace' }).waitFor({ state: 'attached' });
  assert.deepEqual((await choices('Person')).toSorted(), ['Anyone', owner.email, 'grace@example.com']);
  await page.unrouteAll();
});

test('a choice that is no longer offered is shown as it is, not as another one', async () => {
  await page.goto('/dashboard/sessions?agent=long-gone');
  await page.getByText('No matching sessions.').waitFor();
  assert.equal(await page.getByLabel('Agent').locator('option:checked').textContent(), 'long-gone');
});

test('the role of an invitation is chosen in a field that its label and its hint belong to', async () => {
  await page.goto('/dashboard/settings/members');
  await page.getByRole('button', { name: 'Invite someone' }).click();
  await dialog().getByLabel('E-mail').fill('emmy@example.com');
  await dialog().getByText('Role', { exact: true }).click();
  assert.equal(await page.evaluate('document.activeElement.tagName'), 'SELECT');
  const described = page.locator(`[id="${await dialog().locator('select').getAttribute('aria-describedby')}"]`);
  assert.match((await described.textContent()) ?? '', /^Members can read everything/);
  await dialog().getByLabel('Role').selectOption('admin');
  await dialog().getByRole('button', { name: 'Create invitation' }).click();
  await dialog().getByRole('button', { name: 'Done' }).click();
  await page
    .getByRole('listitem')
    .filter({ hasText: /emmy@example.com.*admin/ })
    .waitFor();
});

test('a long id of an end user fits into the legend of the usage, beside its colour', async () => {
  const day = new Date().toISOString().slice(0, 10);
  const row = { day, end_user_id: 'unbroken'.repeat(32), turns: 1, input_tokens: 1, output_tokens: 1, total_tokens: 2, cost_micros: 1 };
  await page.route('**/api/usage?*', (route) => route.fulfill({ json: { data: [row], next_cursor: null } }));
  await page.setViewportSize({ width: 320, height: 740 });
  await page.goto('/dashboard/usage?by=end_user');
  const legend = page.locator('figcaption > span').filter({ hasText: row.end_user_id });
  const [around, colour] = [await legend.boundingBox(), await legend.locator('.painted').boundingBox()];
  assert.ok(around !== null && around.x + around.width <= 320, `ends at ${around && around.x + around.width}`);
  assert.equal(colour?.width, colour?.height);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.unrouteAll();
});

test('caps that could not be read are said to be missing, and are there once they can be', async () => {
  await page.route('**/api/budget', (route) => route.fulfill({ status: 500, json: { detail: 'No caps today.' } }));
  await page.goto('/dashboard/usage');
  await page.getByRole('heading', { name: 'Caps' }).waitFor();
  await page.getByRole('alert').getByText('No caps today.').waitFor();
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Change caps' }).waitFor();
});

test('the overview says why turns failed, and why all are refused, and holds against the credits and the cap what each has used', async () => {
  const { body: session } = await app.request('POST', '/demo/assistant/v1/sessions', {});
  await app.request('POST', `/demo/assistant/v1/sessions/${session.id}/messages`, { text: '/fail unauthorized' });
  await operate(app, 'demo', { credits_micros: 20_000_000 });
  const budget = { total_tokens_cap: 1, instance_spend_cap_micros: null };
  await app.request('POST', `/demo/assistant/v1/sessions/${session.id}/messages`, { text: '/say Hello' });
  await app.request('PUT', '/api/budget', budget);
  await page.goto('/dashboard/');
  await page.getByText('The offline model was told to reject its key.').waitFor();
  await page.getByText(/^\d+ of 1 tokens$/).waitFor();
  await page.getByRole('link', { name: 'The token cap is reached.' }).click();
  await page.getByRole('heading', { name: 'Caps' }).waitFor();
  await page.getByText('The token cap is reached.').waitFor();
  await app.request('PUT', '/api/budget', { ...budget, total_tokens_cap: null });
  await operate(app, 'demo', { credits_micros: null });
  await page.goto('/dashboard/');
  await page.getByText('no cap is set').waitFor();
  assert.equal(await page.getByText('Turns are refused').count(), 0);
});

test('the overview leads to the sessions whose last turn failed; the list stays live, and tells when one of them has recovered', async () => {
  const { body: session } = await app.request('POST', '/demo/assistant/v1/sessions', {});
  const messages = `/demo/assistant/v1/sessions/${session.id}/messages`;
  await app.request('POST', messages, { text: '/fail overloaded' });
  await page.goto('/dashboard/');
  await page.getByRole('link', { name: 'Sessions whose last turn failed' }).click();
  const row = page.getByRole('row').filter({ hasText: session.id });
  await row.getByText('failed', { exact: true }).waitFor();
  assert.deepEqual([...new Set(await page.locator('tbody tr td:nth-child(2)').allTextContents())], ['failed']);
  await row.getByRole('link', { name: session.id }).click();
  const header = page.getByRole('banner').or(page.locator('header')).filter({ hasText: session.id });
  await header.getByText('failed', { exact: true }).waitFor();
  const failure = page.getByRole('log').getByRole('paragraph').filter({ hasText: 'overloaded:' });
  assert.match((await failure.locator('time').textContent()) ?? '', /^\d\d:\d\d$/);
  await page.goBack();
  await row.waitFor();
  await app.request('POST', messages, { text: '/say Hello again' });
  await row.waitFor({ state: 'detached' });
});

test('of an entry of another day the log of a session shows the day, and the playground, which has no room for it, the whole type', async () => {
  const { body: session } = await app.request('POST', '/demo/assistant/v1/sessions', {});
  await app.request('POST', `/demo/assistant/v1/sessions/${session.id}/messages`, { text: '/say long ago' });
  const created_at = new Date('2001-02-03T12:00:00Z');
  await app.context.database.db.updateTable('events').set({ created_at }).where('session_id', '=', session.id).execute();
  const entry = page.getByRole('region', { name: 'Events' }).getByText('session.status_running');
  await page.goto(`/dashboard/sessions/${session.id}?view=log`);
  await entry.waitFor();
  await page.getByText('Feb 3, 2001').first().waitFor();
  await page.goto(`/dashboard/playground/assistant?session=${session.id}`);
  await entry.waitFor();
  assert.equal(await entry.evaluate((type) => type.scrollWidth - type.clientWidth), 0);
});

test('where none of the latest sessions has failed the list says so, and looks further back when it is asked to', async () => {
  await app.request('POST', '/demo/assistant/v1/sessions', {});
  const { body: found } = await app.request('GET', '/dashboard/api/sessions?limit=1');
  await page.route('**/dashboard/api/sessions?state=failed*', (route) => {
    const isFirst = !route.request().url().includes('cursor=');
    return route.fulfill({ json: isFirst ? { data: [], next_cursor: 'further' } : { ...found, next_cursor: null } });
  });
  await page.goto('/dashboard/sessions?state=failed');
  await page.getByText('None of the latest sessions failed in its last turn.').waitFor();
  assert.equal(await page.locator('tbody tr').count(), 0);
  const look = page.getByRole('button', { name: 'Look through older sessions' });
  const refusal = page.locator('[popover] p', { hasText: 'Not now.' });
  // The route that was made last comes first: it is refused once, and once more it has no answer before the list is left.
  await page.route('**/*cursor=further', () => {}, { times: 1 });
  await page.route('**/*cursor=further', (route) => route.fulfill({ status: 500, json: { detail: 'Not now.' } }), { times: 1 });
  await look.click();
  await refusal.waitFor();
  await look.click();
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByText('First key').waitFor();
  assert.equal(await refusal.count(), 1, 'it is not said again');
  await page.goBack();
  await look.click();
  await page.locator('tbody tr').waitFor();
  await page.unrouteAll();
});

test('the underscores of a secret that is only hinted at are not cut off', async () => {
  await page.goto('/dashboard/webhooks');
  const field = page.getByLabel('Signing secret');
  await field.evaluate((input) => input.setAttribute('placeholder', '____'));
  const hint = await field.screenshot();
  await field.evaluate((input) => input.setAttribute('placeholder', ''));
  assert.notDeepEqual(hint, await field.screenshot());
});

test('what was typed into the settings stays when they cannot be read again', async () => {
  await page.goto('/dashboard/settings/organization');
  await page.getByLabel('Name').fill('Not saved yet');
  const refused = page.waitForResponse((response) => response.status() === 500);
  await page.route('**/api/organization', (route) =>
    route.request().method() === 'GET' ? route.fulfill({ status: 500, json: { detail: 'Not now.' } }) : route.continue(),
  );
  // Saved at once, and the settings are read again.
  await page.getByLabel('Default agent').selectOption('');
  await refused;
  await page.getByText('Saved.').waitFor({ state: 'detached' });
  assert.equal(await page.getByLabel('Name').inputValue(), 'Not saved yet');
  await page.unrouteAll();
});

test('the command to begin with names an agent that the organization has, and says that one comes first where it has none', async () => {
  const second = await createOrganization(app, 'second');
  await browserOf(app, second, 'lise@example.com', 'owner');
  const other = await openDashboard(browser, url);
  await signIn(other.page, 'lise@example.com', password);
  await other.page.getByRole('link', { name: 'Go to the agents' }).waitFor();
  await createAgent(app, second.key, 'helper');
  const commands = new Set<string>();
  for (const path of ['', 'sessions', 'usage']) {
    await other.page.goto(`/dashboard/${path}`);
    commands.add((await other.page.getByRole('main').locator('pre').textContent()) ?? '');
  }
  const [command = ''] = commands;
  assert.equal(commands.size, 1);
  const environment = { PATH: process.env.PATH, PARLEY_API_KEY: second.key };
  const { stdout } = await promisify(execFile)('sh', ['-c', command], { env: environment, timeout: 20_000 });
  assert.match(stdout, /"chat.completion"/);
  assert.deepEqual(other.problems, []);
  await other.context.close();
});

test('nothing went wrong on the way, and no request left the machine', async () => {
  assert.deepEqual(problems, []);
  await context.close();
});
