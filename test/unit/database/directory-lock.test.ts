import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { lockDirectory } from '../../../src/database/directory-lock.ts';

let directory = '';
let file = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'parley-lock-'));
  file = join(directory, 'parley.pid');
});
afterEach(() => rmSync(directory, { recursive: true }));

test('a held directory is refused in the same process too, and free again when released', async () => {
  const release = await lockDirectory(directory);
  await assert.rejects(lockDirectory(directory), { message: /is in use by process \d+; stop it, or set PARLEY_DATA_DIR/ });
  await release();
  assert.equal(existsSync(file), false);
  await (await lockDirectory(directory))();
});

const deadPid = Number(execFileSync('sh', ['-c', 'echo $$'], { encoding: 'utf8' }));
const leftovers: [what: string, content: string][] = [
  ['of a process that is gone', `${deadPid} 123`],
  ['of an earlier process with our pid, as in a restarted container', `${process.pid} 1`],
  ['of another program that got the pid since', `${process.ppid} 1`],
  ['that a full disk left empty', ''],
];
for (const [what, content] of leftovers) {
  test(`a lock ${what} is taken over`, async () => {
    writeFileSync(file, content);
    const release = await lockDirectory(directory);
    assert.match(readFileSync(file, 'utf8'), new RegExp(`^${process.pid}\\b`));
    await release();
  });
}

test('of many processes that find the same stale lock, one gets it', async () => {
  writeFileSync(file, `${deadPid} 123`);
  const module = import.meta.resolve('../../../src/database/directory-lock.ts');
  const program = `
    const { lockDirectory } = await import(${JSON.stringify(module)});
    process.stdout.write('ready\\n');
    process.stdin.once('data', () => lockDirectory(${JSON.stringify(directory)}).then(() => process.stdout.write('got it'), () => process.stdout.write('refused')));
    setInterval(() => {}, 1000);`;
  const children = Array.from({ length: 6 }, () => spawn(process.execPath, ['--input-type=module', '-e', program]));
  try {
    await Promise.all(children.map((child) => once(child.stdout, 'data')));
    for (const child of children) child.stdin.write('now\n');
    const answers = await Promise.all(children.map(async (child) => String((await once(child.stdout, 'data'))[0])));
    assert.deepEqual(answers.sort(), ['got it', ...Array.from({ length: 5 }, () => 'refused')]);
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
});
