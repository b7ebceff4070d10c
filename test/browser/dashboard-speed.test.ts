// How long a person waits for a list and for a long conversation, from the click or the address to what is drawn.
// PARLEY_FULL_SIZE=1 stores a million events first (a minute); otherwise there are as many sessions, each shorter.
// Runs alone: it measures response times.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { seedDemo } from '../../scripts/seed-demo.ts';
import { startDashboard } from '../support/dashboard.ts';

const { app, page } = await startDashboard({ after });
await seedDemo(app.context.database, 'demo', { sessions: 10_000, turns: process.env.PARLEY_FULL_SIZE === '1' ? 25 : 2, longEvents: 5_000 });

/** Resolves in the page, two frames after what is looked for is there: when it can be seen. */
await page.addInitScript(`window.drawn = (isThere) => new Promise((resolve) => {
  const look = () => {
    if (!isThere()) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())));
  };
  const observer = new MutationObserver(look);
  observer.observe(document, { subtree: true, childList: true, characterData: true });
  look();
})`);

const rowsThere = "() => document.querySelectorAll('tbody tr').length > 0";
const lists = ['/', '/sessions', '/sessions?state=stopped', '/sessions?q=user_42', '/agents', '/usage', '/audit', '/keys'];

for (const path of lists)
  test(`the list at ${path} is there within a second of asking for its address`, async (t) => {
    await assertWithin(t, 1_000, 3, async () => {
      await page.goto(`/dashboard${path}`);
      return page.evaluate<number>(`drawn(${rowsThere})`);
    });
  });

test('a session of 5,000 events is open, at its end, within half a second of the click', async (t) => {
  await assertWithin(t, 500, 7, async () => {
    await page.goto('/dashboard/sessions?live=off&q=ses_demo_long');
    await page.getByRole('link', { name: 'ses_demo_long' }).waitFor();
    return page.evaluate<number>(`(async () => {
      const clicked = performance.now();
      document.querySelector('a[href$=ses_demo_long]').click();
      const isOpen = () => /Raw log\\s*5000/.test(document.querySelector('main').textContent) && document.querySelector('[role=log] [data-index="3749"]');
      return (await drawn(isOpen)) - clicked;
    })()`);
  });
  const rows = await page.locator('[role=log] [data-index]').count();
  assert.ok(rows > 3 && rows < 60, `${rows} rows are in the page`);
});

/** One attempt in time is enough: what else runs on the machine can only add to it. */
async function assertWithin(
  t: { diagnostic(text: string): void },
  milliseconds: number,
  attempts: number,
  measure: () => Promise<number>,
): Promise<void> {
  const times: number[] = [];
  while (times.length < attempts && Math.min(...times) >= milliseconds) times.push(await measure());
  t.diagnostic(`${times.map(Math.round).join(', ')} ms`);
  assert.ok(Math.min(...times) < milliseconds, `it took ${times.map(Math.round).join(', ')} ms`);
}
