// The usage page that stays open: it goes on with the next day, and with what is spent meanwhile.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startDashboard } from '../support/dashboard.ts';

const { page, problems } = await startDashboard({ after });

test('usage that is open at midnight, in UTC, goes on with the new day, and with what the caps have left', async () => {
  let tokens = 1_000;
  await page.route('**/api/usage?*', (route) => {
    const day = new URL(route.request().url()).searchParams.get('to');
    const row = { day, agent: 'assistant', turns: 1, input_tokens: 1, output_tokens: 1, total_tokens: 2, cost_micros: 1 };
    return route.fulfill({ json: { data: [row], next_cursor: null } });
  });
  await page.route('**/api/budget', async (route) => {
    const response = await route.fetch();
    const { budget } = await response.json();
    await route.fulfill({ response, json: { budget: { ...budget, tokens_used: tokens } } });
  });
  await page.clock.install({ time: '2026-01-31T23:59:50Z' });
  await page.goto('/dashboard/usage?days=7');
  await page.getByText('1,000', { exact: true }).waitFor();
  await page.locator('[role=slider][aria-label^="Tokens of each day, 2026-01-25 to 2026-01-31"]').waitFor();
  await page.getByRole('button', { name: 'Change caps' }).click();
  await page.getByLabel('Total tokens').fill('5000');
  tokens = 2_000;
  await page.clock.fastForward(35_000);
  await page.locator('[role=slider][aria-label^="Tokens of each day, 2026-01-26 to 2026-02-01"]').waitFor();
  await page.getByText('2,000', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Total tokens').inputValue(), '5000', 'what is being typed stays');
  await page.keyboard.press('Escape');
  await page.route('**/api/budget', (route) => route.fulfill({ status: 500, json: { detail: 'Not now.' } }));
  await page.clock.fastForward(35_000);
  await page.getByRole('alert').getByText('The caps could not be read again.').waitFor();
  await page.unrouteAll();
  assert.deepEqual(problems, []);
});
