// The page of examples/managed-agents, of another origin, in a real browser, with a session token that its backend minted.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { openBrowser } from '../support/browser.ts';
import { startExample } from '../support/example.ts';
import { startServer } from '../support/server-process.ts';

const server = await startServer({ after }, { settings: { PARLEY_LEASE_MS: '1000' } });
const site = await startExample({ after }, 'managed-agents', server.url);
const browser = await openBrowser({ after });

test('a page of another origin talks to the agent with a session token, approves, and resumes after a restart', async () => {
  assert.notEqual(new URL(site).origin, new URL(server.url).origin);
  const page = await browser.newPage();
  const requests: { url: string; authorization: string | undefined }[] = [];
  page.on('request', (request) => requests.push({ url: request.url(), authorization: request.headers().authorization }));
  await page.goto(site);
  await page.locator('body[data-session]').waitFor();
  const say = async (text: string) => {
    await page.getByLabel('Message').fill(text);
    await page.getByRole('button', { name: 'Send' }).click();
  };

  await say('/say hello from afar');
  await page.locator('.agent', { hasText: 'hello from afar' }).waitFor();
  assert.equal(await page.locator('.draft').count(), 0, 'the preview gave way to the message');

  await say('/tool bash {"command":"echo approved"}');
  await page.getByRole('button', { name: 'approve_once' }).click();
  await page.locator('.agent', { hasText: 'approved' }).waitFor();

  await server.kill();
  assert.equal((await fetch(new URL('/token', site), { method: 'POST' })).status, 502, 'its backend outlives Parley');
  await server.start();
  await say('/say still the same conversation');
  await page.locator('.agent', { hasText: 'still the same conversation' }).waitFor();
  assert.equal(await page.locator('.you').count(), 3, 'nothing was shown twice');

  const calls = requests.filter(({ url }) => url.startsWith(server.url));
  assert.ok(calls.length > 3);
  assert.ok(!JSON.stringify(requests).includes(server.apiKey), 'the API key never reaches the browser');
});

test('the page cannot call a key-only route, not even to be refused', async () => {
  const page = await browser.newPage();
  await page.goto(site);
  const outcome = await page.evaluate(async (url) => {
    try {
      return (await fetch(`${url}/v1/sessions`, { method: 'POST', headers: { authorization: 'Bearer x' } })).status;
    } catch (error) {
      return String(error);
    }
  }, server.url);
  assert.match(String(outcome), /Failed to fetch/);
});

test('the docs show the example as it is', () => {
  const docs = readFileSync(new URL('../../docs/managed-agents.md', import.meta.url), 'utf8');
  for (const name of ['server.mjs', 'index.html']) {
    const example = readFileSync(new URL(`../../examples/managed-agents/${name}`, import.meta.url), 'utf8');
    assert.ok(docs.includes(example.trim()), `docs/managed-agents.md differs from ${name}`);
  }
});
