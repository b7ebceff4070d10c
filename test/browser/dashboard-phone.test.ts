// The dashboard on a phone, where its menu covers the page.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startDashboard } from '../support/dashboard.ts';
import { until } from '../support/until.ts';

const { app, page, problems } = await startDashboard({ after });
await page.setViewportSize({ width: 360, height: 500 });

const link = (name: string) => page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true });
const scrolledTo = () => page.evaluate<number>("document.getElementById('content').scrollTop");

async function openMenu(): Promise<void> {
  await page.getByRole('button', { name: 'Open menu' }).click();
  await link('Settings').waitFor();
}

async function openScrolled(path: string): Promise<void> {
  await page.goto(`/dashboard${path}`);
  await page.getByRole('button', { name: 'Check' }).waitFor();
  await page.evaluate("document.getElementById('content').scrollTop = 200");
  assert.equal(await scrolledTo(), 200);
}

test('the menu closes also when the page that it covers is chosen, and leaves that where it was read', async () => {
  await openScrolled('/webhooks');
  await openMenu();
  await link('Webhooks').click();
  await page.getByRole('heading', { name: 'Webhooks' }).waitFor({ timeout: 5_000 });
  assert.equal(await page.getByRole('button', { name: 'Close menu' }).count(), 0);
  assert.equal(await scrolledTo(), 200);
});

test('a page that is chosen from the menu begins at its top, and a keyboard goes on in it; Back closes the menu too', async () => {
  await openScrolled('/webhooks');
  await openMenu();
  await link('Usage').press('Enter');
  await page.getByRole('heading', { name: 'Usage' }).waitFor();
  await page.getByRole('heading', { name: 'Caps' }).waitFor();
  assert.deepEqual([await scrolledTo(), await page.evaluate('document.activeElement.id')], [0, 'content']);
  await openMenu();
  await page.goBack();
  await page.getByRole('heading', { name: 'Webhooks' }).waitFor();
  await until(async () => (await scrolledTo()) === 200);
});

test('Back leads to where a list was left, also when an entry of it was opened there', async () => {
  for (let number = 1; number <= 20; number += 1) await app.request('POST', '/api/api_keys', { name: `Key ${number}`, scopes: [] });
  await page.goto('/dashboard/audit');
  const row = page.getByRole('row', { name: /Key 8/ });
  await row.scrollIntoViewIfNeeded();
  const left = await scrolledTo();
  assert.ok(left > 200, `at ${left}`);
  await row.getByRole('button').click();
  await page.getByText('"name": "Key 8"').waitFor();
  await openMenu();
  await link('Settings').click();
  await page.getByRole('heading', { name: 'Settings' }).waitFor();
  await page.goBack();
  await page.getByText('"name": "Key 8"').waitFor();
  assert.equal(await scrolledTo(), left);
  assert.deepEqual(problems, []);
});
