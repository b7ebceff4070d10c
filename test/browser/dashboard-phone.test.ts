// The dashboard on a phone, where its menu covers the page.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startDashboard } from '../support/dashboard.ts';
import { until } from '../support/until.ts';

const { page, problems } = await startDashboard({ after });
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
  assert.deepEqual(problems, []);
});
