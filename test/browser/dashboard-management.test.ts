// Running an organization from the dashboard: signing in, keys, caps, the audit log, members.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Route } from 'playwright-core';
import { openDashboard, owner, signIn, startDashboard } from '../support/dashboard.ts';

const { app, url, browser, page, context, problems } = await startDashboard({ after });
const dialog = () => page.getByRole('dialog');

test('what is empty names the next command', async () => {
  for (const path of ['', 'sessions', 'approvals', 'webhooks', 'usage', 'settings/models', 'settings/members']) {
    await page.goto(`/dashboard/${path}`);
    const command = page.getByRole('main').locator('pre').first();
    await command.waitFor();
    assert.match((await command.textContent()) ?? '', /^(curl -s .*127\.0\.0\.1|npm exec parley -- |\/tool )/, path);
  }
});

test('the first-start link works once', async () => {
  const late = await openDashboard(browser, url);
  await late.page.goto(`/dashboard/join?token=${app.context.seeded.ownerToken}`);
  await late.page.getByLabel('Your name').fill('Mallory');
  await late.page.getByLabel('E-mail').fill('mallory@example.com');
  await late.page.getByLabel('Password').fill('long enough to try');
  await late.page.getByRole('button', { name: 'Join' }).click();
  await late.page.getByText('This invitation is unknown, has expired or was already used.').waitFor();
  await late.context.close();
});

test('someone not signed in is asked to, and then led to where they wanted', async () => {
  const visitor = await openDashboard(browser, url);
  await visitor.page.goto('/dashboard/sessions?state=stopped');
  await visitor.page.waitForURL(/sign-in\?next=/);
  await visitor.page.getByLabel('E-mail').fill(owner.email);
  await visitor.page.getByLabel('Password').fill('not the password');
  await visitor.page.getByRole('button', { name: 'Sign in' }).click();
  await visitor.page.getByRole('alert').waitFor();
  await visitor.page.getByLabel('Password').fill(owner.password);
  await visitor.page.getByRole('button', { name: 'Sign in' }).click();
  await visitor.page.waitForURL('**/dashboard/sessions?state=stopped');
  await visitor.page.getByRole('button', { name: /ada@example.com/ }).click();
  await visitor.page.getByRole('button', { name: 'Sign out' }).click();
  await visitor.page.waitForURL(/sign-in/);
  assert.equal((await visitor.page.request.get('/dashboard/session')).status(), 401);
  await visitor.context.close();
});

test('pages are reached with two keys, a skip link leads past the menu, and the colours can be chosen', async () => {
  await page.goto('/dashboard/');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to content');
  for (const [key, title] of [
    ['s', 'Sessions'],
    ['a', 'Agents'],
    ['l', 'Audit log'],
    ['o', 'Overview'],
  ] as const) {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await page.getByRole('heading', { name: title, level: 1 }).waitFor();
  }
  await page.keyboard.press('?');
  await dialog().getByText('Approve once, approve for the session, deny').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: /ada@example.com/ }).click();
  await page.getByRole('button', { name: 'dark' }).click();
  assert.equal(await page.evaluate('getComputedStyle(document.documentElement).colorScheme'), 'dark');
  await page.getByRole('button', { name: 'system' }).click();
});

test('a key is shown once, works, and is refused once revoked; a login that ended meanwhile costs nothing', async () => {
  await page.goto('/dashboard/');
  await page.getByRole('link', { name: 'API keys', exact: true }).click();
  await page.getByRole('button', { name: 'New key' }).click();
  await dialog().getByLabel('Name').fill('Backend');
  await dialog().getByLabel('agents:read').check();
  await context.clearCookies();
  await dialog().getByRole('button', { name: 'Create key' }).click();
  const again = page.getByRole('dialog', { name: 'Sign in again' });
  await again.getByLabel('Password').fill('not the password');
  await again.getByRole('button', { name: 'Sign in' }).click();
  await again.getByRole('alert').waitFor();
  await again.getByLabel('Password').fill(owner.password);
  await again.getByRole('button', { name: 'Sign in' }).click();
  await again.waitFor({ state: 'detached' });
  await dialog().getByText('Your login had ended, so nothing was changed. Try again.').waitFor();
  const loseAnswer = (route: Route) => route.fetch().then(() => route.abort('connectionreset'));
  await page.route('**/api/api_keys', loseAnswer, { times: 1 });
  await dialog().getByRole('button', { name: 'Create key' }).click();
  const secret = (await dialog().locator('pre').textContent()) ?? '';
  assert.match(secret, /^svc_live_/);
  const keys = await app.request('GET', '/api/api_keys');
  assert.equal(keys.body.data.filter(({ name }: { name: string }) => name === 'Backend').length, 1);
  // What cannot be shown again is not lost to a key, nor to Back.
  for (const key of ['Enter', 'Escape', 'Escape']) await page.keyboard.press(key);
  await page.evaluate('history.back()');
  await dialog().getByText(secret).waitFor();
  // As over plain HTTP on another machine, where there is no clipboard API.
  await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined });
    addEventListener('copy', () => { document.title = document.activeElement.value; })`);
  await dialog().getByRole('button', { name: 'Copy key' }).click();
  await dialog().getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await page.title(), secret);
  const read = () => fetch(`${url}/api/agents`, { headers: { authorization: `Bearer ${secret}` } });
  assert.equal((await read()).status, 200);
  await dialog().getByRole('button', { name: 'I have saved it' }).click();
  assert.equal(await page.getByText(secret).count(), 0);
  await page
    .getByRole('row', { name: /Backend/ })
    .getByRole('button', { name: 'Revoke Backend', exact: true })
    .press('Enter');
  await dialog().getByRole('button', { name: 'Revoke key' }).press('Enter');
  await page.getByText('The key was revoked.').waitFor();
  await page.locator('tr:focus-within', { hasText: 'First key' }).waitFor();
  assert.equal((await read()).status, 401);
});

test('caps are set, and the overview holds the spend against them', async () => {
  await page.goto('/dashboard/usage');
  await page.getByRole('button', { name: 'Change caps' }).click();
  await dialog().getByLabel('Total tokens').fill('1000000');
  await dialog().getByRole('button', { name: 'Save caps' }).click();
  await page.getByText('of 1,000,000').waitFor();
  await page.goto('/dashboard/');
  await page.getByText('of 1M tokens').waitFor();
});

test('the audit log is filtered, verified and exported; looking at it writes nothing', async () => {
  const refuseOnce = () => page.route('**/verification', (route) => route.fulfill({ status: 500, json: {} }), { times: 1 });
  await refuseOnce();
  await page.goto('/dashboard/audit');
  await page.getByRole('button', { name: 'The chain was not checked. Check again' }).press('Enter');
  await page.locator('button:focus', { hasText: /Chain verified, \d+ events/ }).waitFor({ timeout: 5_000 });
  await refuseOnce();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'The chain was not checked. Check again' }).waitFor();
  const broken = { id: 1, action: 'member.joined', created_at: '2026-01-01T00:00:00Z', reason: 'Changed.' };
  const answer = Promise.withResolvers<void>();
  await page.route('**/verification', (route) => answer.promise.then(() => route.fulfill({ json: { checked: 1, head: '', broken } })), {
    times: 1,
  });
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Checking the chain…' }).waitFor();
  answer.resolve();
  await page.getByRole('button', { name: /^Chain broken at member.joined/ }).waitFor();
  await refuseOnce();
  await Promise.all([page.waitForResponse('**/verification'), page.keyboard.press('Enter')]);
  await page.locator('button:not([aria-disabled])', { hasText: 'Chain broken' }).waitFor();
  await page.getByLabel('Action').selectOption('api_key.revoked');
  await page.waitForURL(/action=api_key.revoked/);
  await page.getByRole('cell', { name: /^api_key \d+, Backend$/ }).waitFor();
  await page.getByRole('button', { name: 'api_key.revoked' }).click();
  await page.getByText('"actor_email"').waitFor();
  assert.equal(await page.getByRole('button', { name: 'agent.created' }).count(), 0);
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export CSV' }).click()]);
  assert.equal(download.suggestedFilename(), 'audit_events.csv');
  await page.goto('/dashboard/audit?action=audit_log.exported');
  await page.getByText('1 event', { exact: true }).waitFor();
});

test('with support access off, what end users said is closed to members too; the playground stays open', async () => {
  const id = 'ses_of_user_42';
  await app.request('POST', '/demo/assistant/v1/sessions', { session_id: id, metadata: { end_user_id: 'user_42' } });
  await app.request('POST', `/demo/assistant/v1/sessions/${id}/messages`, { text: '/say a secret' });
  const managed = `/demo/assistant/v1/managed-agents/sessions/${id}`;
  const asMember = async (path: string) => (await page.request.get(path)).status();
  const playground = await context.newPage();
  await playground.goto(`/dashboard/playground/assistant?session=${id}`);
  await playground.getByText('a secret', { exact: true }).waitFor();
  await page.goto('/dashboard/settings/organization');
  await page.getByLabel('Transcripts may be read').click();
  await page.getByText('Saved.').waitFor();
  for (const path of [managed, `${managed}/transcript`, `${managed}/events/stream`]) assert.equal(await asMember(path), 403, path);
  assert.equal(await asMember('/demo/assistant/v1/managed-agents/sessions/ses_gone'), 404);
  assert.equal((await app.request('GET', managed)).status, 200);
  await playground.getByRole('alert').waitFor();
  assert.equal(await playground.getByText('agent.message').count(), 0, 'its events are not shown either');
  await playground.close();
  await page.goto(`/dashboard/sessions/${id}`);
  await page.getByText('You cannot read this conversation.').waitFor();
  assert.equal(await page.getByText('a secret').count(), 0);
  await page.getByRole('button', { name: 'Details' }).click();
  await page.getByText('end_user:user_42').waitFor();
  assert.equal(await page.getByText('Tokens', { exact: true }).count(), 0);
  await page.goto('/dashboard/playground/assistant');
  await page.getByLabel('Message').fill('/say still here');
  await page.getByLabel('Message').press('Enter');
  await page.getByRole('log').getByText('still here', { exact: true }).waitFor();
  await page.goto(`/dashboard/sessions/${id}`);
  await page.getByText('You cannot read this conversation.').waitFor();
  await app.request('PATCH', '/api/organization', { support_access: { transcripts: true } });
  await page.getByRole('log').getByText('a secret', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Details' }).click();
  await page.getByText(/^\(\d+ in, \d+ out\)$/).waitFor();
  await page.getByRole('link', { name: 'release 1', exact: true }).click();
  await page.getByLabel('Instructions').waitFor();
});

test('a credential is stored and tested, and never shown', async () => {
  await page.goto('/dashboard/settings/models');
  await page.getByRole('button', { name: 'Store a key' }).click();
  await dialog()
    .getByLabel(/Provider/)
    .fill('openai-compatible');
  await dialog().getByLabel('Key', { exact: true }).fill('sk-a-long-enough-key-wxyz');
  await dialog().getByRole('button', { name: 'Store key' }).click();
  await page.getByText('…wxyz').waitFor();
  await page.getByRole('button', { name: 'Test' }).click();
  await dialog().getByLabel('Model').fill('any');
  await dialog().getByLabel('Base URL').fill('http://127.0.0.1:9/v1');
  await dialog().getByRole('button', { name: 'Test' }).click();
  await dialog()
    .getByText(/^[a-z_]+: /)
    .waitFor();
  await page.keyboard.press('Escape');
});

test('an invited member joins, sees what members may, and cannot change things', async () => {
  await page.goto('/dashboard/settings/members');
  await page.getByRole('button', { name: 'Invite someone' }).click();
  await dialog().getByLabel('E-mail').fill('grace@example.com');
  await dialog().getByRole('button', { name: 'Create invitation' }).click();
  const link = (await dialog().locator('pre').textContent()) ?? '';
  await dialog().getByRole('button', { name: 'Done' }).click();
  const member = await openDashboard(browser, url);
  await member.page.goto(link);
  await member.page.getByLabel('Your name').fill('Grace Hopper');
  await member.page.getByLabel('Password').fill('a different long one');
  await member.page.getByRole('button', { name: 'Join' }).click();
  await member.page.getByRole('heading', { name: 'Overview' }).waitFor();
  await member.page.goto('/dashboard/agents/assistant');
  await member.page.getByRole('link', { name: 'Release 1', exact: true }).click();
  await member.page.getByRole('heading', { name: 'Instructions' }).waitFor();
  assert.equal(await member.page.getByRole('button', { name: 'Create release' }).count(), 0);
  await member.page.goto('/dashboard/keys');
  await member.page.getByText('First key').waitFor();
  assert.equal(await member.page.getByRole('button', { name: 'New key' }).count(), 0);
  await member.page.goto('/dashboard/audit');
  await member.page.getByText('The audit log is for owners and admins.').waitFor();
  await member.page.getByRole('button', { name: /grace@example.com/ }).click();
  await member.page.getByRole('button', { name: 'Change password' }).click();
  const passwords = member.page.getByRole('dialog', { name: 'Change password' });
  await passwords.getByLabel('New password').fill('yet another long one');
  for (const current of ['not the current one', 'a different long one']) {
    await passwords.getByLabel('Current password').fill(current);
    await passwords.getByRole('button', { name: 'Change password' }).click();
    if (current === 'not the current one') await passwords.getByRole('alert').waitFor();
  }
  await member.page.getByText('The password was changed.').waitFor();
  await passwords.waitFor({ state: 'detached' });
  assert.equal(await member.page.evaluate('document.activeElement.popoverTargetElement?.id'), 'account-menu');
  await member.context.clearCookies();
  await signIn(member.page, 'grace@example.com', 'yet another long one');
  await member.context.close();
  await page.reload();
  await page.getByLabel('Role of grace@example.com').selectOption('admin');
  await dialog().getByRole('button', { name: 'Change role' }).click();
  await page.getByText('Grace Hopper is admin now.').waitFor();
  await page.getByLabel('Role of grace@example.com').selectOption('owner');
  await dialog().getByRole('heading', { name: 'Make Grace Hopper an owner?' }).waitFor();
  await page.keyboard.press('Escape');
  assert.ok(await page.getByRole('button', { name: 'Remove Ada Lovelace' }).isDisabled());
  // One's own role is asked about first; what is refused is said above the question, and in its dialog, beside which all is inert.
  await page.getByLabel('Role of ada@example.com').selectOption('member');
  await dialog().getByRole('button', { name: 'Change role' }).click();
  await dialog()
    .locator('[popover]:popover-open', { hasText: /last owner/ })
    .waitFor();
});

test('nothing went wrong on the way, and no request left the machine', async () => {
  assert.deepEqual(problems, []);
  await context.close();
});
