import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLogger, logConsole } from '../../src/logger.ts';

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

test('lines for which there is no space are lost, and nothing else', { skip: !existsSync('/dev/full') && 'no such device' }, () => {
  const script = `
    import { createLogger } from ${JSON.stringify(import.meta.resolve('../../src/logger.ts'))};
    const logger = createLogger('info');
    const lines = setInterval(() => logger.info('a line'), 5);
    setTimeout(() => {
      clearInterval(lines);
      process.stderr.write('went on');
    }, 200);`;
  const full = openSync('/dev/full', 'w');
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
    timeout: 20_000,
    killSignal: 'SIGKILL',
  });
  closeSync(full);
  assert.deepEqual([status, stderr], [0, 'went on']);
});
