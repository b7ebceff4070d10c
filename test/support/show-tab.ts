import type { Page } from 'playwright-core';

/** Without windows a browser takes all of its tabs for shown. Tells the page that its tab is, or that another one is. */
export async function showTab(page: Page, isShown: boolean): Promise<void> {
  await page.evaluate(`for (const [name, value] of [['hidden', ${!isShown}], ['visibilityState', '${isShown ? 'visible' : 'hidden'}']])
    Object.defineProperty(document, name, { configurable: true, value });
    document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))`);
}
