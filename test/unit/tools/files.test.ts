import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maxToolOutputCharacters, recordedOutput, type Tool, type ToolOutcome } from '../../../src/harness/tool.ts';
import { filesTool } from '../../../src/harness/tools/files.ts';
import { changesProblem } from '../../../src/harness/tools/workspace-changes.ts';
import { workspaceLimits } from '../../../src/workspace-limits.ts';
import { MemoryWorkspace } from '../../support/memory-workspace.ts';

/** With the output as the loop keeps it. */
async function run(tool: Tool, input: unknown, workspace = new MemoryWorkspace()): Promise<ToolOutcome> {
  const outcome = await tool.run(input, { workspace, signal: new AbortController().signal });
  workspace.apply(outcome);
  return { ...outcome, output: recordedOutput(outcome.output) };
}

test('files are written, read, listed and deleted', async () => {
  const workspace = new MemoryWorkspace();
  assert.equal((await run(filesTool, { operation: 'list' }, workspace)).output, 'The workspace is empty.');
  assert.equal((await run(filesTool, { operation: 'write', path: './notes//a.txt', content: 'grüß dich' }, workspace)).isError, false);
  assert.equal((await run(filesTool, { operation: 'read', path: '/workspace/notes/a.txt' }, workspace)).output, 'grüß dich');
  assert.match((await run(filesTool, { operation: 'list', path: 'notes/' }, workspace)).output, /^notes\/a\.txt \(11 bytes, /);
  assert.equal((await run(filesTool, { operation: 'list', path: 'note' }, workspace)).isError, true, 'another directory');
  assert.equal((await run(filesTool, { operation: 'delete', path: 'notes/a.txt' }, workspace)).isError, false);
  assert.equal((await run(filesTool, { operation: 'delete', path: 'notes/a.txt' }, workspace)).isError, true);
  assert.equal((await run(filesTool, { operation: 'read', path: 'notes/a.txt' }, workspace)).isError, true);
  assert.deepEqual(workspace.paths(), []);
});

test('an empty file is a file, and writing replaces', async () => {
  const workspace = new MemoryWorkspace({ 'a.txt': 'before' });
  await run(filesTool, { operation: 'write', path: 'a.txt', content: '' }, workspace);
  assert.deepEqual(await run(filesTool, { operation: 'read', path: 'a.txt' }, workspace), { output: '', isError: false });
});

test('a binary file is read as base64 and said to be', async () => {
  const workspace = new MemoryWorkspace({
    'a.bin': new Uint8Array([0, 1, 255]),
    'latin1.txt': new Uint8Array([0x66, 0xfc, 0x72]),
    nul: 'a\0b',
  });
  const { output } = await run(filesTool, { operation: 'read', path: 'a.bin' }, workspace);
  assert.equal(output, '[binary file of 3 bytes, shown in base64]\nAAH/');
  for (const path of ['latin1.txt', 'nul'])
    assert.match((await run(filesTool, { operation: 'read', path }, workspace)).output, /^\[binary file/);
});

test('a long file is cut and the cut is said', async () => {
  const workspace = new MemoryWorkspace({ 'long.txt': 'x'.repeat(100_000) });
  const { output } = await run(filesTool, { operation: 'read', path: 'long.txt' }, workspace);
  assert(output.length < maxToolOutputCharacters + 200);
  assert.match(output, /\[output truncated: 70000 of 100000 characters left out\]$/);
});

const badPaths = [
  '../x',
  'a/../../x',
  '/etc/passwd',
  '/workspacex/a',
  'a\0b',
  'a\nb',
  'a\u0085b',
  'a\\b',
  '',
  '.',
  '/',
  '/workspace',
  'x'.repeat(256),
  'ü'.repeat(128),
  'd/'.repeat(600),
  'a\ud800',
];
for (const path of badPaths) {
  test(`the path ${JSON.stringify(path.slice(0, 20))} is refused`, async () => {
    for (const operation of ['read', 'write', 'delete']) {
      const outcome = await run(filesTool, { operation, path, content: 'x' });
      assert.equal(outcome.isError, true, operation);
      assert.equal(outcome.changes, undefined);
    }
  });
}

test('a name of 255 bytes and a path of 1,024 are taken', async () => {
  for (const path of ['ü'.repeat(127), 'x'.repeat(255), `${'x'.repeat(255)}/`.repeat(4).slice(0, 1_023)]) {
    assert.equal((await run(filesTool, { operation: 'write', path, content: '' })).isError, false, path.slice(0, 3));
  }
  const longest = `${`${'x'.repeat(254)}/`.repeat(4)}y234`;
  assert.equal(longest.length, 1_024);
  assert.equal((await run(filesTool, { operation: 'write', path: longest, content: '' })).isError, false);
  assert.equal((await run(filesTool, { operation: 'write', path: `${longest}5`, content: '' })).isError, true);
});

test('reading and listing ask nobody; everything else does', () => {
  assert.equal(filesTool.guards({ operation: 'read', path: 'a' }), false);
  assert.equal(filesTool.guards({ operation: 'list' }), false);
  for (const input of [{ operation: 'write' }, { operation: 'delete' }, { operation: 'chmod' }, {}, null, 'text']) {
    assert.equal(filesTool.guards(input), true);
  }
  assert.equal(filesTool.subject({ path: './a//b' }), 'a/b');
  assert.deepEqual([filesTool.subject({ path: '../a' }), filesTool.subject({})], ['../a', ''], 'rules are for what was asked');
  assert.equal(filesTool.prompt({ operation: 'delete', path: 'a' }), 'Delete the file a?');
  assert.equal(filesTool.prompt({ operation: 'write', path: 'a', content: 'ü' }), 'Write 2 bytes to the file a?');
});

test('limits hold, a file and a directory never share a path, and a bad input changes nothing', async () => {
  const workspace = new MemoryWorkspace({ a: 'file', 'dir/b': 'file' });
  const large = 'x'.repeat(workspaceLimits.fileBytes + 1);
  for (const input of [
    { operation: 'write', path: 'large', content: large },
    { operation: 'write', path: 'a/b', content: 'x' },
    { operation: 'write', path: 'dir', content: 'x' },
    { operation: 'write', path: 'c' },
    { operation: 'write', path: 'c', content: 7 },
    { operation: 'chmod', path: 'c', content: 'x' },
    { path: 'c', content: 'x' },
    null,
    [],
    'text',
  ]) {
    const outcome = await run(filesTool, input, workspace);
    assert.equal(outcome.isError, true);
    assert.equal(outcome.changes, undefined);
  }
});

test('a list is in the order of the paths, below a directory or of one file, and a bad input is told before anybody is asked', async () => {
  const workspace = new MemoryWorkspace({ b: '', 'a/2': '', 'a/1': '', 'a.txt': '' });
  const listed = async (path?: string) => (await run(filesTool, { operation: 'list', path }, workspace)).output.replaceAll(/ .*$/gm, '');
  assert.deepEqual([await listed(), await listed('a'), await listed('a/2')], ['a.txt\na/1\na/2\nb', 'a/1\na/2', 'a/2']);
  assert.equal(filesTool.problem({ operation: 'chmod', path: 'a' }), 'The operation must be one of read, write, list, delete');
  assert.equal(filesTool.problem({ operation: 'read', path: 'a' }), undefined);
});

test('a workspace may be as full as its limits say, and what is deleted or replaced makes room', () => {
  const updatedAt = new Date();
  const { fileBytes, totalBytes, files: most } = workspaceLimits;
  const stored = (count: number, size: number) => Array.from({ length: count }, (_, index) => ({ path: `f${index}`, size, updatedAt }));
  const bytes = (path: string, length: number) => ({ path, content: new Uint8Array(length) });
  const gone = (path: string) => ({ path, deleted: true as const });
  const full = stored(most, 0);
  assert.equal(changesProblem(full.slice(1), [bytes('new', 1)]), undefined);
  assert.match(changesProblem(full, [bytes('new', 1)]) ?? '', new RegExp(`${most + 1} files`));
  assert.equal(changesProblem(full, [gone('f0'), bytes('new', 1)]), undefined);
  const heavy = stored(1, totalBytes - fileBytes);
  assert.equal(changesProblem(heavy, [bytes('new', fileBytes)]), undefined);
  assert.match(changesProblem(heavy, [bytes('new', fileBytes), bytes('more', 1)]) ?? '', /The workspace would be/);
  assert.equal(changesProblem(heavy, [bytes('new', fileBytes), bytes('f0', 1), bytes('more', 1)]), undefined);
  assert.match(changesProblem([], [bytes('new', fileBytes + 1)]) ?? '', /a file may have/);
  assert.match(changesProblem([], [bytes('a/../b', 1)]) ?? '', /must not contain/);
});

test('what a person is asked is cut between characters', () => {
  const path = `${'x'.repeat(999)}👋`;
  assert.equal(filesTool.prompt({ operation: 'delete', path }), `Delete the file ${'x'.repeat(999)}\ufffd... (1001 characters)?`);
});
