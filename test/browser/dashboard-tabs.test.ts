// The dashboard in many tabs of one browser, which opens no more than six connections to a server over HTTP/1.1.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startDashboard } from '../support/dashboard.ts';
import { showTab } from '../support/show-tab.ts';

const { app, context, problems } = await startDashboard({ after });
const { body: session } = await app.request('POST', '/demo/assistant/v1/sessions', {});
const say = (text: string) => app.request('POST', `/demo/assistant/v1/sessions/${session.id}/messages`, { text: `/say ${text}` });

async function openSession() {
  const page = await context.newPage();
  await page.goto(`/dashboard/sessions/${session.id}`);
  await page.getByText('from the first day', { exact: true }).waitFor();
  return page;
}

test('with a conversation open in six tabs, a seventh shows it too, and each goes on with it when it is looked at again', async () => {
  await say('from the first day');
  const tabs = [];
  for (let number = 1; number <= 6; number += 1) tabs.push(await openSession());
  for (const tab of tabs) await showTab(tab, false);
  const seventh = await openSession();
  await say('said meanwhile');
  await seventh.getByText('said meanwhile', { exact: true }).waitFor();
  const [first] = tabs;
  assert.ok(first !== undefined);
  assert.equal(await first.getByText('said meanwhile', { exact: true }).count(), 0);
  await showTab(first, true);
  await first.getByText('said meanwhile', { exact: true }).waitFor();
  assert.equal(await first.getByText('from the first day', { exact: true }).count(), 1);
  assert.deepEqual(problems, []);
});
