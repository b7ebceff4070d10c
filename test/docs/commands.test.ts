// Every curl command of the documentation works as it stands, in the order of its page, on a new installation.
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { operatorKey, startApp } from '../support/app.ts';
import { shellBlocks, startReading } from '../support/run-docs.ts';

const settings = { PARLEY_GATEWAY: '1', PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' };
const pages = globSync(['README.md', 'docs/*.md'], { cwd: join(import.meta.dirname, '../..') }).filter(
  (page) => !page.endsWith('quickstart.md'),
);

const app = await startApp({ after }, { settings });
const url = await app.listen();

let ran = 0;
for (const page of pages) {
  const blocks = shellBlocks(page).filter((block) => /^(export|alias|(parley-)?curl) /.test(block));
  if (!blocks.some((block) => block.includes('curl '))) continue;
  test(`the commands of ${page}`, async () => {
    const reader = startReading(url, { PARLEY_API_KEY: app.apiKey, PARLEY_OPERATOR_KEY: operatorKey });
    for (const block of blocks) {
      await reader.run(block);
      ran += 1;
    }
  });
}

test('at least a dozen blocks of commands were found and run', () => assert.ok(ran >= 12, `${ran} blocks`));
