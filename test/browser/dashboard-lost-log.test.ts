// A conversation whose log is refused for a while, as too many requests are: the page says so, and shows nothing that is not so.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Route } from 'playwright-core';
import { startDashboard } from '../support/dashboard.ts';
import { until } from '../support/until.ts';

const { app, page, problems } = await startDashboard({ after });
const sessions = '/demo/assistant/v1/sessions';
const say = (id: string, text: string) => app.request('POST', `${sessions}/${id}/messages`, { text });
const refuse = (route: Route) => route.fulfill({ status: 429, json: { detail: 'Not now.' }, headers: { 'retry-after': '1' } });
const alert = (text: string) => page.getByRole('alert').getByText(text, { exact: true });
const log = () => page.getByRole('log', { name: 'Conversation' });

test('a session whose log cannot be read yet says why, shows the state that it is in, and is there once it can be read', async () => {
  await app.request('POST', sessions, { session_id: 'ses_asking' });
  await say('ses_asking', '/tool bash {"command":"date"}');
  await page.route('**/events/stream*', refuse);
  await page.goto('/dashboard/sessions/ses_asking');
  await alert('The conversation could not be read. Trying again…').waitFor();
  await page.getByText('Not now.').waitFor();
  await page.getByRole('main').locator('header').getByText('waiting', { exact: true }).waitFor();
  assert.equal(await log().count(), 0);
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Approve once' }).waitFor();
  assert.equal(await page.getByText('Not now.').count(), 0);
});

test('a session whose log cannot be read on says so, keeps what was read, and shows the state that it is in', async () => {
  await app.request('POST', sessions, { session_id: 'ses_cut' });
  await say('ses_cut', '/say read before');
  let asked = 0;
  await page.route('**/events/stream*', async (route) => {
    asked += 1;
    if (asked > 1) return refuse(route);
    // It ends where the log does, as if the connection had broken.
    return route.fulfill({ response: await route.fetch({ url: `${route.request().url()}&until=idle` }) });
  });
  await page.goto('/dashboard/sessions/ses_cut');
  await alert('The conversation could not be read further. Trying again…').waitFor();
  await log().getByText('read before', { exact: true }).waitFor();
  await say('ses_cut', '/fail unauthorized');
  await page.getByRole('main').locator('header').getByText('failed', { exact: true }).waitFor();
  await page.unrouteAll();
});

test('in the playground, a message whose log cannot be read is not said to be on its way still, and one that was logged is not again', async () => {
  const write = async (text: string) => {
    await page.getByLabel('Message').fill(text);
    await page.getByLabel('Message').press('Enter');
  };
  await page.goto('/dashboard/playground/assistant');
  await write('/say one');
  await log().getByText('one', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'New session' }).click();
  await page.route('**/events/stream*', refuse);
  await write('/say two');
  await alert('The conversation could not be read. Trying again…').waitFor();
  await log().getByText('/say two').waitFor();
  await log().getByText('Sent', { exact: true }).waitFor();
  await page.goBack();
  await until(async () => (await log().count()) === 0);
  await alert('The conversation could not be read. Trying again…').waitFor();
  assert.equal(await page.getByText('/say one').count(), 0);
  await page.unrouteAll();
  await log().getByText('one', { exact: true }).waitFor();
  await page.goForward();
  await log().getByText('two', { exact: true }).waitFor();
  assert.equal(await log().getByText('/say two').count(), 1);
  assert.deepEqual(problems, []);
});
