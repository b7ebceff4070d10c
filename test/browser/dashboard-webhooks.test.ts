// Webhook endpoints in the dashboard: made, tested, disabled, and what they missed sent to them.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Request } from 'playwright-core';
import { startDashboard } from '../support/dashboard.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const { app, page, problems } = await startDashboard({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
const dialog = () => page.getByRole('dialog');

test('a webhook endpoint: made, tested, its signature checked, resent, its secret rotated, disabled', async () => {
  const receiver = await startReceiver({ after });
  await page.goto('/dashboard/webhooks?new=1');
  await dialog().getByLabel('Name').fill('Orders');
  await dialog().getByLabel('URL').fill(receiver.url);
  await dialog().getByLabel('session.started').check();
  await dialog().getByRole('button', { name: 'Create endpoint' }).click();
  const secret = (await dialog().locator('pre').textContent()) ?? '';
  assert.match(secret, /^whsec_svc_/);
  await dialog().getByRole('button', { name: 'I have saved it' }).click();
  await page.getByText(/0 of 25/).waitFor();
  await page.getByRole('link', { name: 'Orders' }).click();
  await page.getByRole('button', { name: 'Send a test' }).click();
  const [delivery] = await receiver.until((received) => received.length === 1);
  await page.locator('summary').getByText('delivered').waitFor();

  await page.locator('details summary').first().click();
  await page.getByRole('button', { name: 'Resend' }).click();
  await receiver.until((received) => received.length === 2);
  await page.getByText('2 attempts').waitFor();

  await page.getByRole('button', { name: 'Rotate secret' }).click();
  await dialog().getByRole('button', { name: 'Rotate secret' }).click();
  await dialog().getByText('whsec_svc_').waitFor();
  await dialog().getByRole('button', { name: 'I have saved it' }).click();
  await page.getByText('Old secret').waitFor();
  await page.getByRole('button', { name: 'Disable' }).click();
  await dialog().getByRole('button', { name: 'Disable endpoint' }).click();
  await page.getByRole('button', { name: 'Enable' }).waitFor();

  await page.goto('/dashboard/webhooks');
  await page.getByLabel('Signing secret').fill(secret);
  await page.getByLabel('Svc-Signature header').fill(String(delivery?.headers['svc-signature']));
  await page.getByLabel('Raw body').fill(delivery?.text ?? '');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText(/^It matches\./).waitFor();
  await page.getByLabel('Raw body').fill('{}');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText(/^It does not match/).waitFor();
});

test('what a webhook endpoint missed while it was disabled is recovered, for the time that is asked', async () => {
  const receiver = await startReceiver({ after });
  const { body } = await app.request('POST', '/api/webhook_endpoints', {
    name: 'Orders',
    url: receiver.url,
    event_types: ['session.started'],
  });
  const path = `/api/webhook_endpoints/${body.webhook_endpoint.id}`;
  await app.request('POST', `${path}/disable`, {});
  const { body: session } = await app.request('POST', '/demo/assistant/v1/sessions', {});
  await page.goto(`/dashboard/webhooks/${body.webhook_endpoint.id}`);
  const recover = async (from?: string) => {
    await page.getByRole('button', { name: 'Recover' }).click();
    if (from !== undefined) await dialog().getByLabel('From').fill(from);
    await dialog().getByRole('button', { name: 'Recover' }).click();
  };
  await recover('2100-01-01T00:00');
  await dialog().getByRole('alert').getByText('from: must not be after to').waitFor();
  await dialog().getByLabel('From').fill('2000-01-01T00:00');
  await dialog().getByLabel('To').fill('2000-01-02T00:00');
  await dialog().getByRole('button', { name: 'Recover' }).click();
  await page.getByText('Nothing was missed in that time.').waitFor();
  await recover();
  await page.getByText('1 delivery will be sent once it is enabled.').waitFor();
  assert.deepEqual(receiver.received, []);
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('To send what it missed meanwhile, recover it.').waitFor();
  const [delivery] = await receiver.until((received) => received.length === 1);
  assert.equal(delivery?.body.data.session_id, session.id);
  await page.locator('summary').getByText('delivered').waitFor();
});

test('a link to a delivery shows it also when newer ones have pushed it off the list; a long name leaves the dialog its close button', async () => {
  const receiver = await startReceiver({ after });
  const name = 'webhooks.payments.internal.europe.example.com'.repeat(3);
  const { body } = await app.request('POST', '/api/webhook_endpoints', { name, url: receiver.url, event_types: ['invoice.paid'] });
  const path = `/api/webhook_endpoints/${body.webhook_endpoint.id}`;
  const { body: first } = await app.request('POST', `${path}/test`, {});
  await Promise.all(Array.from({ length: 50 }, () => app.request('POST', `${path}/test`, {})));
  await page.goto(`/dashboard/webhooks/${body.webhook_endpoint.id}?delivery=${first.delivery.id}`);
  await page.locator('details[open]').getByRole('button', { name: first.delivery.id }).waitFor();
  assert.equal(await page.locator('details').count(), 51);
  await page.goto(`/dashboard/webhooks/1?delivery=${first.delivery.id}`);
  await page.locator('summary').getByText('delivered').waitFor();
  assert.equal(await page.locator('details[open]').count(), 0);
  await page.goto(`/dashboard/webhooks/${body.webhook_endpoint.id}`);
  await page.getByRole('button', { name: 'Recover' }).click();
  const [around, close] = [await dialog().boundingBox(), await dialog().getByRole('button', { name: 'Close' }).boundingBox()];
  assert.ok(around && close && close.x + close.width <= around.x + around.width);
});

test('a delivery that is gone is asked for once by the page of a link to it', async () => {
  const asked: string[] = [];
  const note = (request: Request) => void asked.push(new URL(request.url()).pathname);
  page.on('request', note);
  const countOf = (path: string) => asked.filter((candidate) => candidate === path).length;
  const [gone, endpoint] = ['/api/webhook_deliveries/00000000-0000-4000-8000-000000000000', '/api/webhook_endpoints/1'];
  await page.goto(`/dashboard/webhooks/1?delivery=${gone.split('/').at(-1)}`);
  // The endpoint is read every five seconds, and a delivery would be every three.
  while (countOf(endpoint) < 3) await page.waitForRequest((request) => request.url().endsWith(endpoint));
  assert.equal(countOf(gone), 1);
  page.off('request', note);
});

test('nothing went wrong on the way, and no request left the machine', () => assert.deepEqual(problems, []));
