// A person who belongs to two organizations, at the dashboard of both.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createOrganization } from '../support/accounts.ts';
import { owner, signIn, startDashboard } from '../support/dashboard.ts';

const { app, page, context, problems } = await startDashboard({ after });
const second = await createOrganization(app, 'second');
const invited = await app.call('POST', '/api/invitations', { key: second.key, body: { email: owner.email, role: 'admin' } });
const joined = await app.call('POST', '/api/invitations/accept', { body: { ...owner, email: undefined, token: invited.body.token } });

async function namesOfKeys(key: string): Promise<string[]> {
  const { body } = await app.call('GET', '/api/api_keys', { key });
  return body.data.map(({ name }: { name: string }) => name);
}

function account(of: Page, organization: string) {
  return of.getByRole('button', { name: `${organization} ${owner.email}` });
}

async function choose(of: Page, organization: string): Promise<void> {
  await of.getByRole('button', { name: new RegExp(owner.email) }).click();
  await of.getByRole('button', { name: organization, exact: true }).click();
  await account(of, organization).waitFor();
}

test('a tab stays with its organization when another tab goes to another one', async () => {
  await page.goto('/dashboard/keys');
  await account(page, 'Demo').waitFor();
  const other = await context.newPage();
  await other.goto('/dashboard/');
  await choose(other, 'second');
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByLabel('Name').fill('Made for Demo');
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByText('Save this key now').waitFor();
  assert.ok((await namesOfKeys(app.apiKey)).includes('Made for Demo'));
  assert.ok(!(await namesOfKeys(second.key)).includes('Made for Demo'));
  await other.close();
});

test('who belongs to more organizations than the menu has room for reaches each of them', async () => {
  const names = Array.from({ length: 30 }, (_, number) => `Agency ${number}`);
  await page.route('**/dashboard/session', async (route) => {
    const response = await route.fetch();
    const { organizations, ...signedIn } = await response.json();
    const others = names.map((name) => ({ slug: name, name, role: 'admin' }));
    await route.fulfill({ response, json: { ...signedIn, organizations: [...others, ...organizations] } });
  });
  await page.goto('/dashboard/keys');
  await account(page, 'second').click();
  for (const name of [/^Ada Lovelace, /, /^Agency 0$/, /^Sign out$/]) {
    const entry = page.locator('#account-menu').getByText(name);
    await entry.scrollIntoViewIfNeeded();
    const box = await entry.boundingBox();
    assert.ok(box !== null && box.y >= 0 && box.y + box.height <= 800, `${name} is at ${box?.y}`);
  }
  await page.unroute('**/dashboard/session');
});

test('the audit log that is exported is the one that is shown', async () => {
  await page.goto('/dashboard/audit');
  await account(page, 'second').waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export CSV' }).click()]);
  assert.equal(download.suggestedFilename(), 'audit_events.csv');
  const csv = await readFile(await download.path(), 'utf8');
  assert.ok(csv.includes('member.joined'), csv);
  assert.ok(!csv.includes('agent.created'), 'that was in the other one');
  const statuses = await page.evaluate(`Promise.all(['second', 'demo'].map((organization) =>
    fetch('/dashboard/api/audit/1', { headers: { 'x-parley-organization': organization } }).then(({ status }) => status)))`);
  assert.deepEqual(statuses, [404, 200]);
});

test('an export that is refused says why, and the page stays', async () => {
  await page.route('**/api/audit_events.csv*', (route) => route.fulfill({ status: 403, json: { detail: 'Not now.' } }));
  await page.getByRole('button', { name: 'Export CSV' }).click();
  await page.getByText('Not now.').waitFor();
  assert.equal(new URL(page.url()).pathname, '/dashboard/audit');
  await page.unroute('**/api/audit_events.csv*');
});

test('a read that still had the old login when a new one was there, as after a change of the password, leaves the person where they are', async () => {
  const refuseOnce = (path: string) => page.route(path, (route) => route.fulfill({ status: 401, json: {} }), { times: 1 });
  for (const path of ['**/dashboard/session', '**/approvals/count']) await refuseOnce(path);
  await page.evaluate("document.querySelector('h1').textContent = 'as it was'");
  await page.waitForResponse(
    (response) => response.ok() && response.url().endsWith('/dashboard/session') && 'x-parley-organization' in response.request().headers(),
  );
  assert.equal(await page.locator('h1').textContent(), 'as it was');
});

test('who is made a member while they read what is for admins is told so at the first refusal', async () => {
  const changed = await app.call('PATCH', `/api/members/${joined.body.member.id}`, { key: second.key, body: { role: 'member' } });
  assert.equal(changed.status, 200, changed.text);
  await page.getByRole('button', { name: 'Export CSV' }).click();
  await page.getByText('The audit log is for owners and admins.').waitFor({ timeout: 5_000 });
});

test('who is removed from the organization that they chose is led to the other one, also when they sign in again', async () => {
  const removed = await app.call('DELETE', `/api/members/${joined.body.member.id}`, { key: second.key });
  assert.equal(removed.status, 204, removed.text);
  await account(page, 'Demo').waitFor();
  await page.evaluate("localStorage.setItem('parley-organization', 'second')");
  await context.clearCookies();
  await signIn(page);
  await account(page, 'Demo').waitFor();
  assert.deepEqual(problems, []);
});
