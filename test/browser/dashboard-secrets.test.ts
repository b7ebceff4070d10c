// Secrets that the server tells only once: they are shown whatever the person did while it was creating them.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startDashboard } from '../support/dashboard.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const { app, page, problems } = await startDashboard({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
const receiver = await startReceiver({ after });
const dialog = (name?: string) => page.getByRole('dialog', name === undefined ? {} : { name });

/** Holds the answers to posts to this path until it is called. */
async function holdAnswers(path: string): Promise<() => void> {
  const held = Promise.withResolvers<void>();
  await page.route(path, async (route) => {
    if (route.request().method() === 'POST') await held.promise;
    await route.continue();
  });
  return held.resolve;
}

async function save(title: string, done: string): Promise<string> {
  await dialog(title).waitFor();
  const secret = (await dialog(title).locator('pre').textContent()) ?? '';
  await dialog(title).getByRole('button', { name: done }).click();
  return secret;
}

test('the secrets of keys are shown, one after the other, also if the dialog was closed and opened again meanwhile', async () => {
  await page.goto('/dashboard/keys');
  const answer = await holdAnswers('**/api/api_keys');
  for (const name of ['First', 'Second']) {
    await page.getByRole('button', { name: 'New key' }).click();
    await dialog().getByLabel('Name').fill(name);
    await dialog().getByRole('button', { name: 'Create key' }).click();
    await page.keyboard.press('Escape');
  }
  await page.getByRole('button', { name: 'New key' }).click();
  await dialog().getByLabel('Name').fill('Third');
  answer();
  const secrets = [await save('Save this key now', 'I have saved it'), await save('Save this key now', 'I have saved it')];
  assert.equal(new Set(secrets).size, 2);
  for (const secret of secrets) assert.match(secret, /^svc_live_/);
  assert.equal(await dialog('New API key').getByLabel('Name').inputValue(), 'Third', 'what is typed meanwhile stays');
  await page.keyboard.press('Escape');
});

test('the secret of an endpoint is shown on another page too', async () => {
  await page.goto('/dashboard/webhooks?new=1');
  const answer = await holdAnswers('**/api/webhook_endpoints');
  await dialog().getByLabel('Name').fill('Orders');
  await dialog().getByLabel('URL').fill(receiver.url);
  await dialog().getByRole('button', { name: 'Create endpoint' }).click();
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'Usage' }).click();
  await page.getByRole('heading', { name: 'Usage' }).waitFor();
  answer();
  assert.match(await save('Save this signing secret now', 'I have saved it'), /^whsec_svc_/);
  await page.getByRole('heading', { name: 'Usage' }).waitFor();
});

test('a secret that was rotated is shown on another page too', async () => {
  const { body } = await app.request('GET', '/api/webhook_endpoints');
  const id = body.webhook_endpoints[0].id;
  await page.goto(`/dashboard/webhooks/${id}`);
  const answer = await holdAnswers('**/rotate_secret');
  await page.getByRole('button', { name: 'Rotate secret' }).click();
  await dialog().getByRole('button', { name: 'Rotate secret' }).click();
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'Usage' }).click();
  await page.getByRole('heading', { name: 'Usage' }).waitFor();
  answer();
  assert.match(await save('Save this signing secret now', 'I have saved it'), /^whsec_svc_/);
});

test('the link of an invitation is shown after its dialog was closed; the focus goes back to the button that opened it', async () => {
  await page.goto('/dashboard/settings/members');
  const answer = await holdAnswers('**/api/invitations');
  await page.getByRole('button', { name: 'Invite someone' }).click();
  await dialog().getByLabel('E-mail').fill('grace@example.com');
  await dialog().getByRole('button', { name: 'Create invitation' }).click();
  await page.keyboard.press('Escape');
  answer();
  await dialog().getByText('for grace@example.com').waitFor();
  assert.match(await save('Share this link', 'Done'), /\/dashboard\/join\?token=/);
  await page.getByRole('button', { name: 'Invite someone' }).press('Enter');
  await dialog().getByLabel('E-mail').fill('alan@example.com');
  await page.keyboard.press('Enter');
  await save('Share this link', 'Done');
  assert.equal(await page.evaluate('document.activeElement.textContent'), 'Invite someone');
  assert.deepEqual(problems, []);
});
