// What somebody writes in the dashboard: how it gets into its field, and who finds it there later.
import { after, test } from 'node:test';
import { startDashboard } from '../support/dashboard.ts';
import { until } from '../support/until.ts';

const { page } = await startDashboard({ after });

test('text that is dragged into the message goes there, and is not taken for a file', async () => {
  await page.goto('/dashboard/playground/assistant');
  const message = page.getByLabel('Message');
  await page.getByText('Talk to Assistant.').selectText();
  await page.getByText('Talk to Assistant.').dragTo(message);
  await until(async () => (await message.inputValue()) === 'Talk to Assistant.');
  await message.fill('');
});
