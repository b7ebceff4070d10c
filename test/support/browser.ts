// The machine's own Chromium, headless. Nothing is downloaded.
import { type Browser, chromium } from 'playwright-core';
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
