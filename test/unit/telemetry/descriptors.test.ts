import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

const source = (path: string) => JSON.stringify(new URL(`../../../src/telemetry/${path}`, import.meta.url));

test('a process that may open no more files says so', { skip: process.platform === 'win32' }, async () => {
  const program = `
    import { openSync } from 'node:fs';
    const { watchDescriptors } = await import(${source('descriptors.ts')});
    const { createLogger } = await import(${source('logger.ts')});
    watchDescriptors(createLogger('info', { write(line) { process.stdout.write(line); process.exit(0); } }), 10);
    try { for (;;) openSync('/dev/null'); } catch {}
    setTimeout(() => process.exit(1), 5_000);`;
  const command = 'ulimit -n 256; exec "$0" --input-type=module -e "$1"';
  const { stdout } = await promisify(execFile)('bash', ['-c', command, process.execPath, program]);
  assert.match(stdout, /"level":40.*EMFILE.*raise the limit \(ulimit -n\)/);
});
