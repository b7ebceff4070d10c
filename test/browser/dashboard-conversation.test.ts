// Talking to an agent in the playground: streaming, approvals on keys, files, stopping, trying another release.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { openDashboard, signIn, startDashboard } from '../support/dashboard.ts';
import { packClient } from '../support/packed-client.ts';
import { until } from '../support/until.ts';

const { app, url, browser, page, problems } = await startDashboard({ after });

async function fresh(): Promise<void> {
  await page.goto('/dashboard/playground/assistant');
  await page.getByText('Talk to Assistant.').waitFor();
}

async function say(text: string, on: Page = page): Promise<void> {
  await on.getByLabel('Message').fill(text);
  await on.getByLabel('Message').press('Enter');
}

const log = () => page.getByRole('log', { name: 'Conversation' });
const rail = () => page.getByRole('region', { name: 'Events' });

test('an answer is written word by word, and the rail shows each stored event', async () => {
  await fresh();
  // Noted in the page at each of its changes: looked at from here, on a busy machine, the answer may be whole at the first look.
  await page.evaluate(`window.noted = new Set();
    new MutationObserver(() => {
      const answer = document.querySelector('[role=log] .prose')?.textContent.trim();
      if (answer) noted.add(answer + (document.querySelector('[aria-label=Events]').textContent.includes('agent.message') ? ', stored' : ''));
    }).observe(document.body, { subtree: true, childList: true, characterData: true })`);
  await say('/delay 150\n/say one **two** three four five six seven');
  await rail().getByText('session.status_idle').waitFor();
  const noted = await page.evaluate<string[]>('[...noted]');
  const whole = 'one two three four five six seven';
  assert.equal(noted.pop(), `${whole}, stored`);
  assert.ok(noted.length > 2 && noted.every((text) => whole.startsWith(text)), noted.join());
  assert.equal(await log().locator('strong').textContent(), 'two');
  const seqs = await rail().locator('button > span:first-child').allTextContents();
  assert.deepEqual(seqs, ['1', '2', '3', '4']);
  await rail().getByText('agent.message').click();
  await rail().getByText('"one **two** three four five six seven"').waitFor();
  assert.match(page.url(), /session=ses_/);
});

test('the rail follows what is stored, and leaves whoever scrolled up in it, or opened an entry, where they are', async () => {
  await app.request('POST', '/demo/assistant/v1/sessions', { session_id: 'ses_railed' });
  const turn = () => app.request('POST', '/demo/assistant/v1/sessions/ses_railed/messages', { text: '/say hi' });
  for (let turns = 0; turns < 12; turns += 1) await turn();
  await page.goto('/dashboard/playground/assistant?session=ses_railed');
  await rail().getByText('48', { exact: true }).waitFor();
  await turn();
  await rail().getByText('52', { exact: true }).waitFor();
  const measure = (what: string) => page.evaluate<number>(`document.querySelector('[aria-label="Events"]').${what}`);
  const stays = async () => {
    const [top, height] = [await measure('scrollTop'), await measure('scrollHeight')];
    await turn();
    await until(async () => (await measure('scrollHeight')) > height);
    assert.equal(await measure('scrollTop'), top);
  };
  assert.ok((await measure('scrollTop')) > 0);
  await rail().getByText('52', { exact: true }).click();
  await rail().getByText('"end_turn"').waitFor();
  await stays();
  await page.evaluate(`document.querySelector('[aria-label="Events"]').scrollTo(0, 0)`);
  await rail().getByText('user.message').first().waitFor();
  await stays();
});

for (const [key, outcome] of [
  ['1', 'Approved once'],
  ['2', 'Approved for the session'],
  ['3', 'Denied'],
] as const) {
  test(`key ${key} answers an approval: ${outcome}`, async () => {
    await fresh();
    await say('/tool bash {"command":"echo from-the-shell"}');
    const card = page.getByRole('region', { name: 'Approval for bash' });
    await card.getByText('"echo from-the-shell"').waitFor();
    await page.getByLabel('Message').press('Escape');
    await page.keyboard.press(key);
    await log().getByText(outcome, { exact: true }).waitFor();
    await card.waitFor({ state: 'detached' });
    await rail().getByText('user.tool_confirmation').waitFor();
    await rail().getByText('session.status_idle').nth(1).waitFor();
    if (key === '3') return;
    await say('/tool bash {"command":"echo again"}');
    if (key === '1') await card.waitFor();
    else await log().getByText('bash answered: again').waitFor();
  });
}

test('thinking is shown or hidden, and the choice is in the address', async () => {
  await fresh();
  await say('/think A secret plan.\n/say Done.');
  await log().getByText('Thinking').click();
  await log().getByText('A secret plan.', { exact: true }).waitFor();
  await page.getByLabel('Thinking').click();
  await log().getByText('Thinking').waitFor({ state: 'detached' });
  assert.match(page.url(), /thinking=off/);
});

test('a dropped file goes along with the next message', async () => {
  await fresh();
  const data = await page.evaluateHandle(
    "(() => { const data = new DataTransfer(); data.items.add(new File(['a,b'], 'table.csv')); return data; })()",
  );
  await page.getByRole('region', { name: 'Chat' }).dispatchEvent('drop', { dataTransfer: data });
  await page.getByText('table.csv').waitFor();
  await say('/tool files {"operation":"read","path":"uploads/table.csv"}');
  await log().getByText('uploads/table.csv').first().waitFor();
  await log().getByText('files answered: a,b').waitFor();
});

test('a running turn is stopped', async () => {
  await fresh();
  await say('/delay 200\n/words 200');
  const field = page.locator('[aria-label=Message]');
  // An Enter that is held down, or comes just when the focus is in the field, was meant for the button.
  await field.fill('half-written');
  await page.evaluate(`addEventListener('focusin', ({ target }) => {
    if (target.matches('[aria-label=Message]')) setTimeout(() => target.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true })));
  })`);
  await page.getByRole('button', { name: 'Stop' }).focus();
  await page.keyboard.down('Enter');
  await log().getByText('Stopped').waitFor();
  await page.locator('[aria-label=Message]:focus').waitFor();
  await page.keyboard.down('Enter');
  await page.keyboard.up('Enter');
  assert.equal(await field.inputValue(), 'half-written');
  await field.fill('');
});

test('markup of an agent fetches nothing and runs nothing', async () => {
  await fresh();
  await say(
    '/say <img src="https://elsewhere.example/x.png" onerror="document.title=1"> ![x](https://elsewhere.example/y.png) [link](javascript:alert(1)) end',
  );
  await log().getByText('link end').waitFor();
  await rail().getByText('session.status_idle').waitFor();
  assert.equal(await log().locator('img, script, iframe').count(), 0);
  assert.equal(await log().locator('a[href^="javascript"]').count(), 0);
  assert.deepEqual(problems, []);
});

test('the code that the playground shows for three clients runs as it stands', async () => {
  await fresh();
  await page.getByLabel('Message').fill('What\'s "new"?');
  await page.getByRole('button', { name: 'View code' }).click();
  const dialog = page.getByRole('dialog');
  const shown = async (client: string): Promise<string> => {
    await dialog.getByRole('button', { name: client, exact: true }).click();
    return (await dialog.locator('pre').textContent()) ?? '';
  };
  const [curl, parley, openai] = [await shown('curl'), await shown('@parley/client'), await shown('openai')];
  await page.keyboard.press('Escape');
  await page.getByLabel('Message').fill('');

  const folder = packClient({ after }, 'openai');
  const environment = { PATH: process.env.PATH, PARLEY_API_KEY: app.apiKey };
  const run = async (program: string, ...args: string[]) =>
    (await promisify(execFile)(program, args, { cwd: folder, env: environment, timeout: 30_000 })).stdout;
  const log = await run('sh', '-c', curl);
  assert.match(log, /event: agent\.message\ndata: .*What's/);
  assert.match(log, /event: session\.status_idle/);
  for (const [name, code] of Object.entries({ parley, openai })) {
    writeFileSync(join(folder, `${name}.js`), code);
    assert.match(await run(process.execPath, `${name}.js`), /What's "new"\?/);
  }
});

test('another release can be tried before it is active', async () => {
  await app.request('POST', '/api/agents/assistant/releases', { instructions: 'Second.', permissions: { mode: 'autonomous' } });
  // By way of the agent's page, which reads the same releases.
  await page.goto('/dashboard/agents/assistant');
  await page.getByText('Release 2', { exact: true }).waitFor();
  await page.getByRole('main').getByRole('link', { name: 'Playground' }).click();
  await page.getByLabel('Release').selectOption('2');
  await say('/tool bash {"command":"echo unasked"}');
  await log().getByText('bash answered: unasked').waitFor();
});

test('the inbox answers what waits in any session, the oldest first, by key', async () => {
  await fresh();
  await say('/tool bash {"command":"echo first-one"}');
  await page.getByRole('button', { name: 'Approve once' }).waitFor();
  await page.goto('/dashboard/approvals');
  const cards = page.getByRole('region', { name: /Approval for/ });
  await page.getByText('"echo first-one"').waitFor();
  const before = await cards.count();
  const oldest = await cards.first().textContent();
  await page.keyboard.press('3');
  await cards.nth(before - 1).waitFor({ state: 'detached' });
  assert.notEqual(oldest, before === 1 ? '' : await cards.first().textContent());
});

test('whoever answers with the keyboard goes on with the message, and in the inbox with the list', async () => {
  const isFocused = (place: string) => page.evaluate<boolean>(`document.activeElement.matches('${place}')`);
  await fresh();
  await say('/tool bash {"command":"date"}');
  await page.getByRole('button', { name: 'Deny' }).press('Enter');
  await until(() => isFocused('[aria-label=Message]'));
  await say('/tool bash {"command":"date"}');
  await page.getByRole('button', { name: 'Deny' }).waitFor();
  await page.goto('/dashboard/approvals');
  await page.getByRole('button', { name: 'Deny' }).first().press('Enter');
  await until(() => isFocused('main'));
});

test('an answer to what was there a moment ago does not go to what took its place; the inbox says where it ends', async () => {
  const card = (id: string) => ({
    ...{ request_id: id, session_id: 'ses_1', agent: 'assistant', end_user_id: null, tool: 'bash', message: '', input: { command: id } },
    ...{ options: ['approve_once', 'deny'], created_at: new Date().toISOString() },
  });
  let waiting = [card('one'), card('two')];
  const answered: unknown[] = [];
  await page.route('**/dashboard/api/approvals', (route) => route.fulfill({ json: { data: waiting, is_partial: true } }));
  await page.route('**/ses_1/events', (route) => {
    const { request_id, result } = Object(route.request().postDataJSON());
    answered.push([request_id, result]);
    return route.fulfill({ status: 202, json: { accepted: true } });
  });
  await page.goto('/dashboard/approvals');
  await page.getByText('"one"').waitFor();
  await page.getByRole('link', { name: 'All sessions that wait' }).waitFor();
  await page.evaluate(`new MutationObserver(() => {
    dispatchEvent(new KeyboardEvent('keydown', { key: '1' }));
    document.title = 'pressed';
  }).observe(document.querySelector('main ol'), { childList: true })`);
  waiting = waiting.slice(1);
  await until(async () => (await page.title()) === 'pressed');
  await until(async () => {
    await page.keyboard.press('3');
    return answered.length > 0;
  });
  assert.deepEqual(answered, [['two', 'deny']]);
  await page.unrouteAll();
});

test('without a network the page says so, and an answer given meanwhile is refused instead of being given later', async () => {
  await app.request('POST', '/v1/sessions', { session_id: 'offline' });
  await app.request('POST', '/v1/sessions/offline/messages', { text: '/tool bash {"command":"echo offline"}' });
  await page.goto('/dashboard/approvals');
  const card = page.getByRole('region', { name: /Approval for/ }).filter({ hasText: '"echo offline"' });
  await card.waitFor();
  await page.context().setOffline(true);
  await card.getByRole('button', { name: 'Approve once' }).click();
  await page.getByText('The server cannot be reached.', { exact: true }).waitFor();
  await page.getByText('The server cannot be reached. Retrying').waitFor();
  await page.context().setOffline(false);
  await page.getByText('Connected again.').waitFor();
  assert.ok(await card.getByRole('button', { name: 'Approve once' }).isEnabled());
  const { body } = await app.request('GET', '/v1/sessions/offline');
  assert.equal(body.pending_input.tool, 'bash');
  // What a proxy says while the server behind it starts again; nothing on the page asks again before that is over.
  const asked: string[] = [];
  await page.route(/\/(dashboard\/api\/|readyz)/, (route) => {
    asked.push(new URL(route.request().url()).pathname);
    return route.fulfill({ status: 502, body: '<html>' });
  });
  await page.getByText('The server cannot be reached. Retrying').waitFor();
  await until(async () => asked.filter((path) => path === '/readyz').length > 3);
  await page.unrouteAll();
  await page.getByText('Connected again.').waitFor();
  assert.ok(asked.filter((path) => path === '/dashboard/api/approvals').length < 2, asked.join());
});

test('a session is followed live by a second person, and stopped', async () => {
  await fresh();
  await say('/say seen by one');
  await rail().getByText('session.status_idle').waitFor();
  const sessionId = new URL(page.url()).searchParams.get('session');
  const second = await openDashboard(browser, url);
  await signIn(second.page);
  await app.request('POST', '/demo/assistant/v1/sessions', { session_id: 'ses_silent' });
  await second.page.goto('/dashboard/sessions/ses_silent');
  await second.page.getByText('No messages in this session yet.').waitFor({ timeout: 5_000 });
  await second.page.goto(`/dashboard/sessions/${sessionId}`);
  await second.page.getByText('seen by one').first().waitFor();
  await say('/say seen by both');
  await second.page.getByRole('log').getByText('seen by both', { exact: true }).waitFor();
  await second.page.getByRole('button', { name: 'Stop' }).press('Enter');
  await second.page.getByRole('button', { name: 'Stop session' }).focus();
  await second.page.keyboard.down('Enter');
  await second.page.locator('button:focus', { hasText: 'Resume' }).waitFor();
  // What is still held down does not resume it.
  await second.page.keyboard.down('Enter');
  await second.page.keyboard.up('Enter');
  assert.ok(await second.page.getByRole('button', { name: 'Resume' }).isEnabled());
  await second.page.getByRole('button', { name: 'Resume' }).click();
  await second.page.getByRole('button', { name: 'Stop', exact: true }).waitFor();
  assert.equal((await app.request('GET', `/demo/assistant/v1/sessions/${sessionId}`)).body.status, 'active');
  await second.context.close();
  assert.deepEqual(second.problems, []);
});
