import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLogger, logConsole } from '../../../src/telemetry/logger.ts';

test('a warning that repeats is written once, then again after a while with how often it was; other lines are never left out', async () => {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger('info', { write: (line) => lines.push(JSON.parse(line)) }, 100);
  const lost = new Error('connect ECONNREFUSED');
  for (let count = 0; count < 50; count += 1) {
    logger.warn({ err: lost, request_id: `rid_${count}` }, 'database error');
    logger.warn({ err: lost }, 'could not renew leases');
    logger.info({ status: 503 }, 'request');
    logger.error({ err: lost }, 'request failed');
  }
  logger.warn({ err: new Error('the database system is starting up') }, 'database error');
  const count = (message: string) => lines.filter(({ msg }) => msg === message).length;
  assert.deepEqual(['database error', 'could not renew leases', 'request', 'request failed'].map(count), [2, 1, 50, 50]);
  await sleep(110);
  logger.warn({ err: lost }, 'database error');
  assert.deepEqual([lines.at(-1)?.msg, lines.at(-1)?.repeated], ['database error', 49]);
});

test('what a package says on the console is a line of the log, whatever is in it', (t) => {
  const { debug, log, info, warn, error } = console;
  t.after(() => Object.assign(console, { debug, log, info, warn, error }));
  const lines: string[] = [];
  logConsole(createLogger('info', { write: (line) => lines.push(line) }));
  console.warn(`excluding tool '%s'`, 'x\n{"level":50,"msg":"forged"}');
  console.debug('not wanted at this level');
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)).map(({ level, msg, said }) => [level, msg, said]),
    [[40, 'console', 'excluding tool \'x\n{"level":50,"msg":"forged"}\'']],
  );
  assert.equal(lines[0]?.trimEnd().includes('\n'), false);
});

for (const [where, open] of [
  ['for which there is no space', () => openSync('/dev/full', 'w')],
  ['that nobody reads', openUnreadPipe],
] as const) {
  for (const end of ['', 'process.exit()']) {
    test(`lines ${where} are lost, and hold up neither the process nor its end ${end}`, () => {
      const output = open();
      const script = `
        const lines = setInterval(() => {
          for (let count = 0; count < 100; count += 1) logger.info({ text: 'x'.repeat(100) }, 'a line');
        }, 5);
        setTimeout(() => {
          clearInterval(lines);
          process.stderr.write('went on');
          logger.info('the last line');
          ${end}
        }, 300);`;
      const { status, stderr } = runLogging(script, output);
      closeSync(output);
      assert.deepEqual([status, stderr], [0, 'went on']);
    });
  }
}

test('an end of the process leaves no line behind, and none in pieces', () => {
  const script = `
    for (let count = 1; count <= 300; count += 1) logger.info({ count, text: 'é'.repeat(20) }, 'a line');
    setImmediate(() => process.exit());`;
  const { stdout } = runLogging(script, 'pipe');
  const lines = stdout.trimEnd().split('\n');
  assert.deepEqual([lines.length, JSON.parse(lines.at(-1) ?? '').count], [300, 300]);
});

function runLogging(script: string, output: number | 'pipe') {
  const start = `import { createLogger } from ${JSON.stringify(import.meta.resolve('../../../src/telemetry/logger.ts'))};
    const logger = createLogger('info');`;
  return spawnSync(process.execPath, ['--input-type=module', '-e', start + script], {
    stdio: ['ignore', output, 'pipe'],
    encoding: 'utf8',
    timeout: 20_000,
    killSignal: 'SIGKILL',
    maxBuffer: 16 * 1024 * 1024,
  });
}

function openUnreadPipe(): number {
  const folder = mkdtempSync(join(tmpdir(), 'parley-log-'));
  const path = join(folder, 'log');
  spawnSync('mkfifo', [path]);
  // Opened for both, it has a reader.
  const pipe = openSync(path, 'r+');
  rmSync(folder, { recursive: true });
  return pipe;
}
