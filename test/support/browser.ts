// The machine's own Chromium, headless. Nothing is downloaded.
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from 'playwright-core';
import type { Owner } from './app.ts';
import { findChromium } from './programs.ts';

export async function openBrowser(owner: Owner): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: findChromium(),
    // Its sandbox refuses to start as root, as in most containers.
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  });
  owner.after(() => browser.close());
  return browser;
}

/**
 * The page of somebody who was never here: closes the context's other pages, and empties what it keeps for this origin. Takes 0.5 s of CPU
 * time, a context of its own 1.3 s; without windows, both take 0.25 s.
 */
export async function openAsNewVisitor(context: BrowserContext, origin: string): Promise<Page> {
  for (const page of context.pages()) {
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.close();
  }
  await context.clearCookies();
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
  await devtools.detach();
  return page;
}

/** A picture for the documentation: made when it is missing, or with PARLEY_SCREENSHOTS=1. */
export async function keepPicture(of: Page | Locator, name: string): Promise<void> {
  const folder = join(import.meta.dirname, '../../docs/images');
  const path = join(folder, `${name}.png`);
  if (existsSync(path) && process.env.PARLEY_SCREENSHOTS !== '1') return;
  mkdirSync(folder, { recursive: true });
  await of.screenshot({ path, animations: 'disabled' });
}
