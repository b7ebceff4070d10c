// Agents and their releases in the dashboard: made, compared, activated, rolled back, deleted.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createAgent } from '../support/accounts.ts';
import { startDashboard } from '../support/dashboard.ts';

const { app, page, context, problems } = await startDashboard({ after });
const dialog = () => page.getByRole('dialog');

test('a release is edited, checked, compared, activated and rolled back', async () => {
  // One release has nothing to be compared with.
  await page.route('**/pins', (route) => route.fulfill({ status: 500, json: { detail: 'Not now.' } }), { times: 1 });
  await page.goto('/dashboard/agents/assistant?tab=diff');
  const pinned = page.getByRole('row', { name: /Release 1/ }).getByRole('link', { name: /sessions on release 1/ });
  await page.getByRole('alert').getByText('How many sessions are pinned could not be read.').waitFor();
  assert.equal(await pinned.textContent(), '– sessions on release 1');
  await pinned.getByText('0').waitFor();
  await page.goto('/dashboard/agents/assistant?tab=edit');
  const editor = page.getByLabel(/^Release/);
  const text = await editor.inputValue();
  await editor.fill('{ not json');
  assert.equal(await editor.getAttribute('aria-invalid'), 'true');
  assert.ok(await page.getByRole('button', { name: 'Create release' }).isDisabled());
  await editor.fill(text.replace('"offline"', '"no-such-provider"'));
  await page.getByRole('button', { name: 'Create release' }).click();
  await page
    .getByRole('alert')
    .getByText(/provider/)
    .waitFor();
  await editor.fill(text.replaceAll('Answer briefly', 'Answer at length'));
  await page.getByRole('region', { name: 'Differences' }).getByText('Answer at length').first().waitFor();
  // What somebody else makes meanwhile, and a reload, take nothing away from what is being written.
  const written = await editor.inputValue();
  await app.request('POST', '/api/agents/assistant/releases', { instructions: 'Made by somebody else.', activate: true });
  await page.route('**/api/agents/assistant', (route) => route.fulfill({ status: 500, json: { detail: 'Not now.' } }), { times: 1 });
  await page.getByRole('button', { name: 'Change', exact: true }).click();
  await dialog().getByRole('button', { name: 'Save' }).click();
  await dialog().getByRole('alert').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Change', exact: true }).click();
  assert.equal(await dialog().getByRole('alert').count(), 0, 'what was refused before is over');
  await dialog().getByLabel('Description').fill('Answers briefly');
  await dialog().getByRole('button', { name: 'Save' }).click();
  await page.getByText('Answers briefly', { exact: true }).waitFor();
  assert.equal(await editor.inputValue(), written);
  await page.reload();
  assert.equal(await editor.inputValue(), written);
  await page.getByLabel('Activate it once it is ready').check();
  await page.getByRole('button', { name: 'Create release' }).click();
  await page
    .getByRole('row', { name: /Release 3/ })
    .getByText('active')
    .waitFor();
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.getByRole('region', { name: 'Differences' }).getByText('Answer at length').first().waitFor();
  await page.getByRole('button', { name: 'Releases', exact: true }).click();
  await page
    .getByRole('row', { name: /Release 1/ })
    .getByRole('button', { name: 'Roll back' })
    .click();
  await dialog().getByText('stay on the release they were created with').waitFor();
  await dialog().getByRole('button', { name: 'Roll back' }).click();
  await page
    .getByRole('row', { name: /Release 1/ })
    .getByText('active')
    .waitFor();
});

test('instructions are written as text of several lines, and what changed in them is shown line by line', async () => {
  await page.goto('/dashboard/agents/assistant?tab=edit&from=1');
  const instructions = page.getByLabel('Instructions', { exact: true });
  await instructions.fill('Be brief.\nBe kind.');
  await page.getByRole('region', { name: 'Differences' }).getByText('added: Be kind.').waitFor();
  const editor = page.getByLabel(/^Release/);
  const text = await editor.inputValue();
  assert.equal(JSON.parse(text).instructions, 'Be brief.\nBe kind.');
  await editor.fill('{ not json');
  assert.ok(await instructions.isDisabled());
  await editor.fill(text.replace('kind', 'polite'));
  assert.equal(await instructions.inputValue(), 'Be brief.\nBe polite.');
  await page.getByRole('button', { name: 'Start over' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  assert.equal(await instructions.inputValue(), 'Be brief.\nBe polite.');
  await page.getByRole('button', { name: 'Start over' }).press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'Start over' }).press('Enter');
  await page.getByText('Nothing yet').waitFor();
  await page.locator('input:focus').waitFor();
});

test('a release that fails is not activated, and one that is active and failed can be tried again', async () => {
  const keyless = { provider: 'anthropic', name: 'claude-sonnet-4-5' };
  await app.request('POST', '/api/agents', { slug: 'keyless' });
  await app.request('POST', '/api/agents/keyless/releases', { model: keyless, activate: true });
  await page.goto('/dashboard/agents');
  await page
    .getByRole('row', { name: /keyless/ })
    .getByText('failed')
    .waitFor();
  await page.goto('/dashboard/');
  const problem = page.getByRole('listitem').filter({ hasText: /failed.*keyless.*Release 1/ });
  await problem.getByRole('link').click();
  await page.getByRole('heading', { name: 'keyless' }).waitFor();
  await page.goto('/dashboard/playground/assistant');
  await page.getByLabel('Agent').press('k');
  await page.getByText('Release 1 failed, so keyless cannot answer.').waitFor();
  await page.locator('[aria-label=Agent]:focus').waitFor();
  await page.goBack();
  await page.locator('main:focus').waitFor();
  await page.goForward();
  await page.getByRole('link', { name: 'All releases' }).click();
  await page.getByRole('link', { name: 'Store a key' }).click();
  await page.getByRole('heading', { name: 'Credentials' }).waitFor();
  await page.goBack();
  await app.request('PUT', '/api/model_credentials/anthropic', { api_key: 'sk-ant-0123456789abcdef' });
  const first = page.getByRole('row', { name: /Release 1/ });
  await first.getByRole('button', { name: 'Try again' }).click();
  await first.getByText('failed').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'New release' }).click();
  await page.getByLabel(/^Release/).fill(JSON.stringify({ model: { ...keyless, provider: 'openai' } }));
  await page.getByLabel('Activate it once it is ready').check();
  await page.getByRole('button', { name: 'Create release' }).click();
  await page.getByText(/^Release 2 failed and was not activated: credentials: no key for openai/).waitFor();
  await first.getByText('active', { exact: true }).waitFor();
  await app.request('DELETE', '/api/model_credentials/anthropic');
});

test('a release is made once although its answer was lost, and activated when it is ready', async () => {
  await app.request('POST', '/api/agents', { slug: 'slow' });
  let [posts, isReady] = [0, false];
  await page.route(/\/api\/agents\/slow\/releases/, async (route) => {
    const request = route.request();
    if (request.method() === 'POST' && request.url().endsWith('/releases')) {
      posts += 1;
      if (posts > 1) return route.continue();
      await route.fetch();
      return route.abort('connectionreset');
    }
    const response = await route.fetch();
    const text = await response.text();
    return route.fulfill({ response, body: isReady ? text : text.replaceAll('"materialized"', '"materializing"') });
  });
  await page.goto('/dashboard/agents/slow?tab=edit');
  await page.getByRole('button', { name: 'Create release' }).click();
  const row = page.getByRole('row', { name: /Release 1/ });
  await row.getByText('materializing').waitFor();
  await page.getByText('It becomes active once that is done').waitFor();
  isReady = true;
  await row.getByText('active', { exact: true }).waitFor();
  await page.unrouteAll();
  const { body } = await app.request('GET', '/api/agents/slow/releases');
  assert.equal(body.data.length, 1);
});

test('the tools that a release pinned at its MCP servers are listed', async () => {
  await page.route(/\/api\/agents\/assistant\/releases/, async (route) => {
    const response = await route.fetch();
    const pinned = '"pinned_tools":[{"server":"shop","name":"refund","description":"Gives money back.","read_only":true}]';
    return route.fulfill({ response, body: (await response.text()).replaceAll('"pinned_tools":[]', pinned) });
  });
  await page.goto('/dashboard/agents/assistant?tab=edit');
  await page.getByRole('listitem').filter({ hasText: 'shop: refund read-only' }).getByText('Gives money back.').waitFor();
  await page.unrouteAll();
});

test('a new release begins with the active one, however many newer ones there are', async () => {
  await createAgent(app, app.apiKey, 'prolific', { instructions: 'The one in use.' });
  for (let count = 0; count < 50; count += 1) await app.request('POST', '/api/agents/prolific/releases', { instructions: 'Never used.' });
  await page.goto('/dashboard/agents/prolific?tab=edit');
  assert.match(await page.getByLabel('Release, from 1', { exact: true }).inputValue(), /The one in use/);
});

test('a double click makes one release', async () => {
  await app.request('POST', '/api/agents', { slug: 'hasty' });
  await page.goto('/dashboard/agents/hasty?tab=edit');
  await page.getByRole('button', { name: 'Create release' }).dblclick();
  await page
    .getByRole('row', { name: /Release 1/ })
    .getByText('active', { exact: true })
    .waitFor();
  const { body } = await app.request('GET', '/api/agents/hasty/releases');
  assert.equal(body.data.length, 1);
});

test('who changes what somebody else deleted meanwhile is told so', async () => {
  await app.request('POST', '/api/agents', { slug: 'brief' });
  await page.goto('/dashboard/agents/brief?tab=edit');
  await page.getByRole('button', { name: 'Create release' }).waitFor();
  await app.request('DELETE', '/api/agents/brief');
  await page.getByRole('button', { name: 'Create release' }).click();
  await page.getByRole('alert').getByText('This no longer exists: somebody may have deleted it meanwhile.').waitFor();
});

test('an agent is made, and deleted by name', async () => {
  await page.goto('/dashboard/');
  await page.getByRole('link', { name: 'Agents', exact: true }).click();
  await page.getByRole('button', { name: 'New agent' }).click();
  // Back closes the dialog, and the page stays.
  await dialog().getByLabel('Slug').fill('too early');
  await page.evaluate('history.back()');
  await dialog().waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'New agent' }).click();
  assert.equal(await dialog().getByLabel('Slug').getAttribute('title'), 'Only a-z, 0-9, _ and -; a letter or digit first.');
  const name = 'Support'.repeat(28);
  await dialog().getByLabel('Slug').fill('support');
  await dialog().getByLabel('Name').fill(name);
  await dialog().getByRole('button', { name: 'Create agent' }).click();
  await page.waitForURL('**/agents/support?tab=edit');
  // The way back is to the list, not to the dialog that is done with.
  await page.goBack();
  await page.getByRole('link', { name }).click();
  await page.getByRole('button', { name: 'New release' }).click();
  await page.getByRole('button', { name: 'Create release' }).click();
  await page
    .getByRole('row', { name: /Release 1/ })
    .getByText('active')
    .waitFor();
  // After a dialog whose button cannot take the focus back it is not on the one beside it.
  await page.getByRole('button', { name: 'Change', exact: true }).press('Enter');
  await dialog().waitFor();
  await page.getByText('Change', { exact: true }).evaluate((button) => Object(button).setAttribute('hidden', ''));
  await dialog().getByLabel('Name').press('Enter');
  await page.locator('main:focus').waitFor();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog()
    .getByRole('heading', { name: `Delete ${name}?` })
    .waitFor();
  await dialog().getByRole('button', { name: 'Delete agent' }).click();
  const wider = await page.getByText(`${name} was deleted.`).evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
  assert.equal(wider, 0, 'a notice breaks a name that has no blank');
  await page.waitForURL('**/dashboard/agents');
  await page.getByText('Assistant', { exact: true }).waitFor();
  await page.getByRole('link', { name }).waitFor({ state: 'detached' });
});

test('on the smallest phone the tabs of a page scroll by themselves, and not the page; the one that was pressed keeps the focus', async () => {
  await page.setViewportSize({ width: 320, height: 740 });
  await page.goto('/dashboard/settings/system');
  await page.getByRole('button', { name: 'System' }).waitFor();
  const wider = (selector: string) => page.locator(selector).evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
  assert.ok((await wider('main fieldset')) > 0);
  assert.equal(await wider('main'), 0);
  await page.getByRole('button', { name: 'Organization' }).press('Enter');
  await page.getByLabel('Alert thresholds').waitFor();
  await page.locator('button:focus', { hasText: 'Organization' }).waitFor();
  await page.setViewportSize({ width: 1280, height: 800 });
});

test('nothing went wrong on the way, and no request left the machine', async () => {
  assert.deepEqual(problems, []);
  await context.close();
});
