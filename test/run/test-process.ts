// A process of tests: runs the test files that are its arguments one after the other, each as a test whose subtests are the file's tests.
import { resolve } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

/** For a whole file. It only has to be finite: with Infinity, as without any, it would be the timeout of a single test. */
const fileTimeout = 24 * 60 * 60_000;
const closingTimeout = 10_000;

for (const file of process.argv.slice(2)) {
  test(file, { timeout: fileTimeout }, async (t) => {
    const openBefore = listOpen();
    await import(pathToFileURL(resolve(file)).href);
    t.after(() => untilClosed(openBefore));
  });
}

/**
 * Fails if the file leaves a server, a connection or a process open, which would have kept its process alive if it had one of its own.
 * A timer that is left is noticed when this process does not end.
 */
async function untilClosed(openBefore: string[]): Promise<void> {
  const end = performance.now() + closingTimeout;
  for (;;) {
    const leftOpen = listOpen();
    for (const kind of openBefore) if (leftOpen.includes(kind)) leftOpen.splice(leftOpen.indexOf(kind), 1);
    if (leftOpen.length === 0) return;
    if (performance.now() > end) throw new Error(`the file left something open: ${leftOpen.join(', ')}`);
    await sleep(50);
  }
}

/** Without timers, of which Node goes on counting some that ended themselves, and without pipes, which are our own output. */
const listOpen = () => process.getActiveResourcesInfo().filter((kind) => kind !== 'Timeout' && kind !== 'PipeWrap');
