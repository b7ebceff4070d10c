// Every page of the dashboard with something on it: what it shows, in both lights, on a phone, to a screen reader.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { seedDemo } from '../../scripts/seed-demo.ts';
import { keepPicture } from '../support/browser.ts';
import { assertAccessible, assertColoursAccessible, cutOff, overflow, startDashboard } from '../support/dashboard.ts';
import { until } from '../support/until.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const { app, page, problems } = await startDashboard({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
await seedDemo(app.context.database, 'demo', { sessions: 400, turns: 3, longEvents: 0 });
const receiver = await startReceiver({ after });
const sessionId = await furnish();

interface PageCase {
  name: string;
  path: string;
  /** Something that is only there once the page has what it shows. */
  shows: string | RegExp;
}

/** Those whose picture the documentation shows. */
const pictured: PageCase[] = [
  { name: 'overview', path: '/', shows: 'Latest failed turns' },
  { name: 'playground', path: `/playground/assistant?session=${sessionId}`, shows: 'Approve once' },
  { name: 'sessions', path: '/sessions?live=off', shows: /ses_demo_0000001|…demo_0000001/ },
  { name: 'session-timeline', path: `/sessions/${sessionId}?view=timeline`, shows: 'Waiting for a person' },
  { name: 'approvals', path: '/approvals', shows: 'Approve once' },
  { name: 'agent', path: '/agents/assistant', shows: 'Release 2' },
  { name: 'release-diff', path: '/agents/assistant?tab=diff&a=1&b=2', shows: /Be brief/ },
  { name: 'webhook', path: '/webhooks/1', shows: 'session.started' },
  { name: 'api-keys', path: '/keys', shows: 'Nightly report' },
  { name: 'usage', path: '/usage?by=model', shows: 'anthropic/claude-sonnet-4-5' },
  { name: 'audit-log', path: '/audit', shows: /Chain verified/ },
  { name: 'settings-models', path: '/settings/models', shows: 'anthropic' },
];

/** Pages and dialogs that need no picture. */
const plain: PageCase[] = [
  { name: 'session', path: `/sessions/${sessionId}`, shows: 'Approve once' },
  { name: 'session-log', path: `/sessions/${sessionId}?view=log&seq=3`, shows: 'session.status_idle' },
  { name: 'session-details', path: '/sessions/ses_demo_0000001?view=facts', shows: 'Durable instance' },
  { name: 'agents', path: '/agents', shows: 'Release 1' },
  { name: 'release-edit', path: '/agents/assistant?tab=edit', shows: 'What changes' },
  { name: 'webhooks', path: '/webhooks', shows: 'Orders' },
  { name: 'settings-members', path: '/settings/members', shows: 'grace@example.com' },
  { name: 'settings-organization', path: '/settings/organization', shows: 'Support access' },
  { name: 'settings-system', path: '/settings/system', shows: /PGlite|PostgreSQL/ },
  { name: 'sign-in', path: '/sign-in', shows: 'Password' },
  { name: 'join', path: '/join?token=inv_x', shows: 'Your name' },
  { name: 'not-found', path: '/no/such/page', shows: 'There is no page at this URL.' },
  { name: 'failed-release', path: '/agents/unready', shows: 'failed' },
  { name: 'audit-event', path: '/audit?event=1', shows: '"actor_email"' },
  { name: 'no-session', path: '/sessions/ses_gone', shows: 'There is no session with this id.' },
  { name: 'no-agent', path: '/playground/gone', shows: 'There is no agent with this name.' },
  { name: 'new-session', path: '/playground/assistant', shows: 'Talk to Assistant.' },
  { name: 'new-key', path: '/keys?new=1', shows: 'Create key' },
  { name: 'new-agent', path: '/agents?new=1', shows: 'Create agent' },
  { name: 'new-endpoint', path: '/webhooks?new=1', shows: 'Create endpoint' },
];

for (const { name, path, shows } of [...pictured, ...plain])
  test(`${name}: shows what it is for, is accessible in both lights, and fits a phone`, async () => {
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(`/dashboard${path}`);
    const shown = () => page.getByText(shows).filter({ visible: true }).first().waitFor();
    await shown();
    await page.evaluate('document.fonts.ready');
    // Colours that are still changing would be measured as they pass.
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    if (pictured.some((each) => each.name === name)) await keepPicture(page, name);
    await assertAccessible(page, `${name}, light`);
    await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
    if (name === 'overview') await keepPicture(page, 'overview-dark');
    await assertColoursAccessible(page, `${name}, dark`);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 375, height: 740 });
    // What is beside the chat on a large screen is in place of it on a small one, from the start.
    if (path.startsWith('/playground')) await page.reload();
    await shown();
    assert.equal(await overflow(page), 0);
    assert.deepEqual(await cutOff(page), []);
    if (name === 'approvals') await keepPicture(page, 'phone');
    // The smallest phone, and the smallest screen that has the menu beside the page.
    for (const width of [320, 768]) {
      await page.setViewportSize({ width, height: 740 });
      assert.deepEqual([await overflow(page), await cutOff(page)], [0, []], `at ${width}`);
    }
    assert.deepEqual(problems, []);
  });

test('why a release failed is readable on a tablet too', async () => {
  await page.setViewportSize({ width: 768, height: 740 });
  await page.goto('/dashboard/agents/unready');
  const reason = await page.getByRole('cell', { name: /must use HTTPS/ }).boundingBox();
  assert.ok((reason?.width ?? 0) > 400, `${reason?.width} px wide`);
});

test('what has no column on a phone is below the name: the scopes of a key, who did what, and how many tokens it took', async () => {
  await page.setViewportSize({ width: 375, height: 740 });
  const row = (text: string | RegExp) => page.getByRole('row').filter({ hasText: text }).first();
  await page.goto('/dashboard/keys');
  await row('Nightly report').getByText('audit_log:export').filter({ visible: true }).waitFor();
  await row('Nightly report')
    .getByRole('button', { name: /^svc_live_/ })
    .filter({ visible: true })
    .waitFor();
  await page.setViewportSize({ width: 768, height: 740 });
  assert.ok(((await row('Nightly report').getByText('Nightly report').boundingBox())?.width ?? 0) > 100);
  await page.setViewportSize({ width: 375, height: 740 });
  await page.goto('/dashboard/audit');
  await row('webhook_endpoint.created')
    .getByText(/^svc_live_test.*: webhook_endpoint \d, /)
    .filter({ visible: true })
    .waitFor();
  const joined = row('member.joined').getByText('ada@example.com: member ada@example.com', { exact: true });
  await joined.filter({ visible: true }).waitFor({ timeout: 5_000 });
  await page.goto('/dashboard/usage?by=model');
  await page.getByRole('columnheader', { name: 'Tokens', exact: true }).waitFor();
});

test('a page is printed without the menu, as a whole, and dark on white whatever the colours', async () => {
  await page.setViewportSize({ width: 800, height: 600 });
  await page.goto('/dashboard/sessions?live=off');
  await page.locator('tbody tr').nth(49).waitFor();
  await page.evaluate("document.documentElement.dataset.theme = 'dark'");
  await page.emulateMedia({ media: 'print' });
  assert.equal(await page.getByRole('navigation', { name: 'Main' }).isVisible(), false);
  assert.ok(await page.evaluate<boolean>('document.documentElement.scrollHeight > 1500'));
  assert.equal(await page.evaluate('getComputedStyle(document.body).color'), 'rgb(29, 28, 26)');
  await page.emulateMedia({ media: 'screen' });
});

test('the bars of a chart are read with the arrow keys and from a table, by whoever cannot point at them', async () => {
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto('/dashboard/usage?by=model');
  const chart = page.getByRole('slider', { name: /^Tokens of each day/ });
  await chart.focus();
  const read = async (key: string) => {
    await page.keyboard.press(key);
    return (await chart.getAttribute('aria-valuetext')) ?? '';
  };
  const [today, before, first] = [await read('End'), await read('ArrowLeft'), await read('Home')];
  for (const text of [today, before, first]) assert.match(text, /: anthropic\/claude-sonnet-4-5 [\d.]+K, openai\/gpt-5-mini [\d.]+K/);
  assert.equal(new Set([today, before, first]).size, 3);
  assert.equal(await chart.getAttribute('aria-valuenow'), '0');
  await page.getByText('Values as a table').click();
  const table = page.getByRole('table', { name: /^Tokens of each day/ });
  await table.getByRole('row').nth(30).waitFor();
  assert.equal(await table.getByRole('row').count(), 31);
  const [newest = ''] = await table.getByRole('row').nth(1).getByRole('rowheader').allTextContents();
  assert.ok(today.startsWith(newest), `${today}: ${newest}`);
  await assertAccessible(page, 'a chart with its table');
});

test('a list of many sessions goes on page by page, and a filter stays in the address', async () => {
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto('/dashboard/sessions');
  const rows = page.locator('tbody tr');
  await rows.nth(49).waitFor();
  // By whoever has no pointer: the button is still the one that is pressed next.
  await page.getByRole('button', { name: 'Show more' }).focus();
  await page.keyboard.press('Enter');
  await rows.nth(99).waitFor();
  await page.keyboard.press('Enter');
  await rows.nth(149).waitFor();
  await page.getByText('not live while older ones are shown').waitFor();
  // Whoever opens one and comes back is where they were.
  await rows.nth(90).scrollIntoViewIfNeeded();
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
  // Anywhere in its row.
  await rows.nth(90).getByRole('cell').last().click();
  await page.getByRole('heading', { name: 'Session', exact: true }).waitFor();
  await page.goBack();
  await rows.nth(90).waitFor();
  assert.ok(await page.evaluate<boolean>("document.getElementById('content').scrollTop > 2000"));
  await page.getByLabel('State').selectOption('stopped');
  await page.getByText('stopped').nth(5).waitFor();
  assert.match(page.url(), /state=stopped/);
  await page.reload();
  await rows.nth(3).waitFor();
  assert.deepEqual([...new Set(await page.locator('tbody tr td:nth-child(2)').allTextContents())], ['stopped']);
  await page.getByLabel('Session or end user id').fill('ses_demo_0000007');
  await page.waitForURL(/q=ses_demo_0000007/);
  await page.getByLabel('Session or end user id').fill('Ann ');
  await page.waitForURL(/q=Ann$/);
  await page.getByLabel('Session or end user id').press('L');
  await page.waitForURL(/q=Ann\+L$/);
});

test('a link to an audit event shows it, however many newer ones there are', async () => {
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto('/dashboard/audit');
  const newest = page.waitForResponse(/dashboard\/api\/audit\?/);
  await page.reload();
  const { data } = await (await newest).json();
  await page.route('**/dashboard/api/audit?*', (route) => route.fulfill({ json: { data: data.slice(0, 2), next_cursor: 'older' } }));
  await page.goto('/dashboard/audit?event=1');
  await page.getByText('"actor_email"').waitFor();
  assert.equal(await page.getByRole('button', { expanded: true }).count(), 1);
  // It is no answer to another question.
  await page.getByLabel('Action').selectOption('agent.created');
  await page.getByText('"actor_email"').waitFor({ state: 'detached' });
  await page.unrouteAll();
});

test('a tab says which settings it shows, and how much waits for approval', async () => {
  await page.goto('/dashboard/settings/members');
  await until(async () => (await page.title()) === 'Members, settings · Parley');
  await page.goto('/dashboard/approvals');
  await until(async () => (await page.title()) === '(1) Approvals · Parley');
});

test('usage of which there is too much to read says where it was cut', async () => {
  const row = { day: '2026-01-31', end_user_id: 'ann', turns: 1, input_tokens: 1, output_tokens: 1, total_tokens: 2, cost_micros: 1 };
  await page.route('**/api/usage?*', (route) => route.fulfill({ json: { data: [row], next_cursor: 'further' } }));
  await page.goto('/dashboard/usage?by=end_user');
  await page.getByText('what came after 2026-01-31 is not counted here').waitFor();
  await page.unrouteAll();
});

test('a page whose content is refused has its title and says so, instead of loading for good', async () => {
  const detail = 'Something went wrong here.';
  const paths = {
    '/': 'Overview',
    '/agents': 'Agents',
    '/agents/assistant': 'Agent',
    '/playground': 'Playground',
    '/sessions/ses_1': 'Session',
    '/sessions': 'Sessions',
    '/usage': 'Usage',
    '/webhooks': 'Webhooks',
    '/webhooks/1': 'Webhook endpoint',
    '/settings/members': 'Settings',
  };
  await page.route(/\/(dashboard\/api|api)\//, (route) =>
    route.fulfill({ status: 500, json: { detail }, headers: { 'x-request-id': 'rid_1' } }),
  );
  for (const [path, title] of Object.entries(paths)) {
    await page.goto(`/dashboard${path}`);
    await page.getByRole('heading', { name: title, exact: true }).waitFor();
    await page.getByRole('alert').getByText(detail).first().waitFor();
    await page.getByRole('alert').getByRole('button', { name: 'rid_1' }).first().waitFor();
    // A page that reads several things shows each failure as it comes.
    await page.getByText('Loading').first().waitFor({ state: 'detached' });
    // Nor does it say that there is nothing.
    assert.equal(await page.getByRole('main').locator('pre').count(), 0, path);
  }
  await page.unrouteAll();
  await page.route('**/api/webhook_endpoints', (route) => route.fulfill({ json: {} }));
  await page.goto('/dashboard/webhooks');
  await page.getByRole('heading', { name: 'This page went wrong' }).waitFor();
  await page.getByRole('link', { name: 'Agents' }).click();
  await page.getByRole('heading', { name: 'Agents' }).waitFor();
  await page.unrouteAll();
});

test('what is rare is looked for through short pages, without being asked to', async () => {
  const { body: found } = await app.request('GET', '/dashboard/api/sessions?surface=chat&limit=1');
  await page.route('**/dashboard/api/sessions?surface=gateway*', (route) => {
    const isFirst = !route.request().url().includes('cursor=');
    return route.fulfill({ json: isFirst ? { data: [], next_cursor: 'further' } : { ...found, next_cursor: null } });
  });
  await page.goto('/dashboard/sessions?surface=gateway');
  await page.locator('tbody tr').first().waitFor();
  assert.equal(await page.locator('tbody tr').count(), 1);
  await page.unroute('**/dashboard/api/sessions?surface=gateway*');
});

async function furnish(): Promise<string> {
  const make = async (path: string, body: unknown, method: 'POST' | 'PUT' = 'POST'): Promise<unknown> => {
    const answer = await app.request(method, path, body);
    assert.ok(answer.status < 300, `${path}: ${answer.status} ${answer.text}`);
    return answer.body;
  };
  await make('/api/agents/assistant/releases', { instructions: 'Be brief.', tools: ['files'] });
  await make('/api/api_keys', { name: 'Nightly report', scopes: ['usage:read', 'audit_log:export'] });
  await make('/api/webhook_endpoints', { name: 'Orders', url: receiver.url });
  const longName = 'webhooks.payments.internal.europe.example.com:8443';
  await make('/api/webhook_endpoints', { name: longName, url: receiver.url, event_types: ['invoice.paid'] });
  await make('/api/webhook_endpoints/2/rotate_secret', {});
  await make('/api/agents', { slug: 'unready', name: 'A name of many letters, no space among them: '.replaceAll(' ', '_').repeat(4) });
  const unreachable = { provider: 'openai-compatible', name: 'a-model', base_url: 'http://127.0.0.1:9/v1' };
  await make('/api/agents/unready/releases', { instructions: 'Be brief.', model: unreachable });
  await make(`/api/model_credentials/${'crm_token_'.repeat(6)}`, { api_key: 'token-0123456789abcdef' }, 'PUT');
  await make('/api/model_credentials/anthropic', { api_key: 'sk-ant-0123456789abcdef' }, 'PUT');
  await make('/api/invitations', { email: 'grace@example.com', role: 'admin' });
  await make('/api/invitations', { email: 'somebody.with.a.rather.long.name@engineering.example.com', role: 'member' });
  receiver.answer = 503;
  const session = await make('/demo/assistant/v1/sessions', { metadata: { end_user_id: 'user_42', plan: 'team' } });
  const id = typeof session === 'object' && session !== null && 'id' in session ? String(session.id) : '';
  await make(`/demo/assistant/v1/sessions/${id}/messages`, {
    text: '/think A short tour.\n/say Hello! I can **answer questions**, use a shell, and work with files.',
  });
  await make(`/demo/assistant/v1/sessions/${id}/messages`, { text: '/tool files {"operation":"list","path":"."}' });
  await make(`/demo/assistant/v1/sessions/${id}/messages`, { text: '/tool bash {"command":"ls -la uploads | sort > report.txt"}' });
  await receiver.until((received) => received.length > 1);
  return id;
}
