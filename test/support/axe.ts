// Checks a page with axe. The minified script is injected once for each page; axe's own package for Playwright injects the large one twice
// for every check.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ElementContext, RunOptions } from 'axe-core';
import type { Page } from 'playwright-core';

const source = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');

export interface Violation {
  id: string;
  impact?: string | null;
  nodes: { html: string }[];
}

/** Does not look into frames: our pages have none. */
export async function findViolations(page: Page, options: RunOptions = {}, context: ElementContext = 'html'): Promise<Violation[]> {
  if (!(await page.evaluate<boolean>("typeof axe === 'object'"))) await page.evaluate(source);
  // Without selectors, which take a fifth of its time: the HTML of an element says which it is.
  const args = JSON.stringify([context, { ...options, selectors: false, resultTypes: ['violations'] }]);
  return page.evaluate<Violation[]>(`axe.run(...${args}).then(({ violations }) => violations)`);
}
