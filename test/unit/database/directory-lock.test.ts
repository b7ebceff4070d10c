import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { lockDirectory } from '../../../src/database/directory-lock.ts';
import { holdDirectory, isDirectoryHeld } from '../../../src/database/directory-socket.ts';
import { until } from '../../support/until.ts';

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

const isLinux = process.platform === 'linux';
test('a lock of a killed process that its parent has not taken note of is taken over', { skip: !isLinux && 'told by /proc' }, async () => {
  // A shell that becomes another program leaves its child to one that never asks for it.
  const parent = spawn('sh', ['-c', 'sleep 60 & echo $!; exec sleep 60']);
  try {
    const pid = Number(String((await once(parent.stdout, 'data'))[0]));
    const fields = () => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    const start = fields()[19];
    await until(async () => readFileSync(`/proc/${parent.pid}/cmdline`, 'utf8').startsWith('sleep'));
    writeFileSync(file, `${pid} ${start}`);
    await assert.rejects(lockDirectory(directory), { message: new RegExp(`is in use by process ${pid};`) });
    process.kill(pid, 'SIGKILL');
    await until(async () => fields()[0] === 'Z');
    await (await lockDirectory(directory))();
  } finally {
    parent.kill('SIGKILL');
  }
});

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

test('a directory that a process of another container holds is refused, though its pid says nothing here, until it is killed', {
  skip: !isLinux && 'containers share the kernel of Linux',
}, async () => {
  const module = JSON.stringify(new URL('../../../src/database/directory-lock.ts', import.meta.url));
  const program = `const { lockDirectory } = await import(${module});
    await lockDirectory(${JSON.stringify(directory)}); console.log('held'); setInterval(() => {}, 1_000);`;
  const holder = spawn(process.execPath, ['--input-type=module', '-e', program]);
  try {
    await once(holder.stdout, 'data');
    // As the other container's first process wrote it.
    writeFileSync(file, `${process.pid} 1`);
    process.kill(holder.pid ?? 0, 'SIGSTOP');
    await assert.rejects(lockDirectory(directory), { message: /is in use by process/ });
    assert.equal(readFileSync(file, 'utf8'), `${process.pid} 1`);
    holder.kill('SIGKILL');
    await once(holder, 'exit');
    await (await lockDirectory(directory))();
  } finally {
    holder.kill('SIGKILL');
  }
});

test('a process that was told that nobody holds the directory asks again before it takes over what seemed stale', {
  skip: !isLinux && 'containers share the kernel of Linux',
}, async () => {
  const theirs = `${process.pid} 1`;
  writeFileSync(file, theirs);
  const refused = assert.rejects(lockDirectory(directory), { message: /is in use by another process; stop it/ });
  // It has taken the lock of the other container's process, which listens only now.
  await until(async () => readFileSync(file, 'utf8') !== theirs);
  const letGo = await holdDirectory(directory);
  await refused;
  assert.equal(await isDirectoryHeld(directory), true);
  letGo();
});
