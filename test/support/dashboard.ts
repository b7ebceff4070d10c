// The dashboard as a person uses it: built, served, opened in a real browser.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { RunOptions } from 'axe-core';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { type AppOptions, type Owner, startApp, type TestApp } from './app.ts';
import { findViolations } from './axe.ts';
import { openBrowser } from './browser.ts';

const root = join(import.meta.dirname, '../..');

export const owner = { name: 'Ada Lovelace', email: 'ada@example.com', password: 'correct horse battery' };

export interface Visit {
  page: Page;
  context: BrowserContext;
  /** Errors of the page, and requests to other hosts. Tests assert that it is empty in the end. */
  problems: string[];
}

export function buildDashboardOnce(): void {
  execFileSync(process.execPath, [join(root, 'scripts/build-missing.mjs')], { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** A fresh browser profile at the dashboard of this address. */
export async function openDashboard(browser: Browser, url: string, options: { width?: number; dark?: boolean } = {}): Promise<Visit> {
  const { width = 1280, dark = false } = options;
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: dark ? 'dark' : 'light', baseURL: url });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => {
    // The browser itself logs every request that gets an error status; the page shows what it means.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) problems.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) problems.push(`a request left: ${request.url()}`);
  });
  return { page, context, problems };
}

/** Starts a server, and opens its dashboard with its owner signed in. */
export async function startDashboard(
  test: Owner,
  options: AppOptions = {},
): Promise<Visit & { app: TestApp; url: string; browser: Browser }> {
  buildDashboardOnce();
  const app = await startApp(test, options);
  const url = await app.listen();
  const browser = await openBrowser(test);
  const visit = await openDashboard(browser, url);
  await joinAsOwner(visit.page, app.context.seeded.ownerToken ?? '');
  return { ...visit, app, url, browser };
}

/** Follows the link that the first start printed. */
export async function joinAsOwner(page: Page, token: string): Promise<void> {
  await page.goto(`/dashboard/join?token=${token}`);
  await page.getByLabel('Your name').fill(owner.name);
  await page.getByLabel('E-mail').fill(owner.email);
  await page.getByLabel('Password').fill(owner.password);
  await page.getByRole('button', { name: 'Join' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

export async function signIn(page: Page, email = owner.email, password = owner.password): Promise<void> {
  await page.goto('/dashboard/sign-in');
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Main' }).waitFor({ state: 'attached' });
}

export async function assertAccessible(page: Page, what: string): Promise<void> {
  await assertNothingSerious(page, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }, what);
}

/** For a page whose colours alone have changed. */
export async function assertColoursAccessible(page: Page, what: string): Promise<void> {
  await assertNothingSerious(page, { runOnly: ['color-contrast', 'link-in-text-block'] }, what);
}

async function assertNothingSerious(page: Page, options: RunOptions, what: string): Promise<void> {
  const violations = await findViolations(page, options);
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(
    serious.map(({ id, nodes }) => `${what}: ${id} ${nodes.map((node) => node.html).join(' ')}`),
    [],
  );
}

/** The texts of panels whose content is wider than they are and that cannot be scrolled. */
export function cutOff(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`[...document.querySelectorAll('.panel, section[aria-label^="Approval"]')]
    .filter((panel) => panel.scrollWidth > panel.clientWidth && getComputedStyle(panel).overflowX !== 'auto')
    .map((panel) => panel.textContent.slice(0, 80))`);
}

/** How much wider than the window the page is. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}
