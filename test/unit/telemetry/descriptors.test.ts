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
  assert.match(await runWithFewFiles(program), /"level":40.*EMFILE.*raise the limit \(ulimit -n\)/);
});

test('its metrics say so too, instead of failing altogether', { skip: process.platform !== 'linux' }, async () => {
  const program = `
    import { openSync } from 'node:fs';
    const { createMetrics } = await import(${source('metrics.ts')});
    const { watchProcess } = await import(${source('process-metrics.ts')});
    const metrics = createMetrics();
    watchProcess(metrics, {
      runner: { running: new Map() },
      feed: { watcherCount: 0 },
      waitingRoom: { working: 0, waiting: 0, shed: 0 },
      log: { waitingWrites: 0 },
      courier: { running: 0, delivered: 0, failed: 0 },
      database: { pool: () => ({ open: 0, idle: 0, waiting: 0 }) },
      bus: {},
    });
    try { for (;;) openSync('/dev/null'); } catch {}
    process.stdout.write(await metrics.read());`;
  const text = await runWithFewFiles(program);
  assert.match(text, /^process_open_fds 256$/m);
  assert.match(text, /^parley_turns_running 0$/m);
});

async function runWithFewFiles(program: string): Promise<string> {
  const command = 'ulimit -n 256; exec "$0" --input-type=module -e "$1"';
  return (await promisify(execFile)('bash', ['-c', command, process.execPath, program])).stdout;
}
