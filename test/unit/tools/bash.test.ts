// Own process: it measures the memory of the process.
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { maxToolOutputCharacters, recordedOutput, type ToolOutcome } from '../../../src/harness/tool.ts';
import { createBashTool } from '../../../src/harness/tools/bash.ts';
import { createShellPool, type ShellPoolOptions, shellProcesses } from '../../../src/harness/tools/bash-pool.ts';
import { serveLocally } from '../../support/local-server.ts';
import { MemoryWorkspace } from '../../support/memory-workspace.ts';
import { until } from '../../support/until.ts';

const shared = createShellPool({ processes: 2, timeoutMs: 10_000 });
after(() => shared.close());

/** With the output as the loop keeps it. */
async function bash(
  command: unknown,
  workspace = new MemoryWorkspace(),
  pool = shared,
  signal = new AbortController().signal,
  lineId = 1,
): Promise<ToolOutcome> {
  const outcome = await createBashTool(pool, lineId).run({ command }, { workspace, signal });
  workspace.apply(outcome);
  return { ...outcome, output: recordedOutput(outcome.output) };
}

async function withPool<T>(options: ShellPoolOptions, use: (pool: ReturnType<typeof createShellPool>) => Promise<T>): Promise<T> {
  const pool = createShellPool(options);
  try {
    return await use(pool);
  } finally {
    pool.close();
  }
}

test('files that a command leaves are kept for the next one: new, changed, moved, deleted', async () => {
  const workspace = new MemoryWorkspace({ 'uploads/data.csv': 'a,b\n1,2\n', 'old.txt': 'old', 'moved.txt': 'moving', 'same.txt': 'same' });
  const first = await bash(
    'cut -d, -f1 uploads/data.csv > out/first.txt || mkdir out && cut -d, -f1 uploads/data.csv > out/first.txt',
    workspace,
  );
  assert.equal(first.isError, false, first.output);
  const second = await bash('rm old.txt; mv moved.txt there.txt; echo more >> out/first.txt; cat out/first.txt', workspace);
  assert.equal(second.output.split('\n').slice(-3).join(','), 'a,1,more');
  assert.deepEqual(workspace.paths(), ['out/first.txt', 'same.txt', 'there.txt', 'uploads/data.csv']);
  assert.equal(workspace.text('there.txt'), 'moving');
  assert.deepEqual(second.changes?.map((change) => change.path).sort(), ['moved.txt', 'old.txt', 'out/first.txt', 'there.txt']);
});

test('a command may look at one file several times at once', async () => {
  const workspace = new MemoryWorkspace({ 'a.txt': 'b\na\n' });
  assert.equal((await bash('sort a.txt a.txt', workspace)).output, 'a\na\nb\nb');
  assert.deepEqual(workspace.reads, ['a.txt']);
  assert.equal((await bash('echo "a.txt a.txt" | xargs -P 2 -n 1 wc -l; echo c >> a.txt', workspace)).isError, false);
  assert.equal(workspace.text('a.txt'), 'b\na\nc\n');
});

test('a command loads only the files it looks at, and changes only what it changed', async () => {
  const workspace = new MemoryWorkspace({ 'a.txt': 'a', 'b.txt': 'b', 'c/d.txt': 'd', 'e.txt': 'e' });
  const outcome = await bash('ls; cat a.txt; echo -n b > b.txt; echo -n E > e.txt', workspace);
  assert.equal(outcome.output, 'a.txt\nb.txt\nc\ne.txt\na');
  assert.equal(workspace.reads.includes('c/d.txt'), false);
  assert.deepEqual(
    outcome.changes?.map((change) => change.path),
    ['e.txt'],
  );
});

test('a failing command says its exit code and its errors, and keeps what it wrote', async () => {
  const workspace = new MemoryWorkspace();
  const outcome = await bash('echo partial > file; echo out; ls /nowhere; exit 3', workspace);
  assert.equal(outcome.isError, true);
  assert.match(outcome.output, /^out\nls: .*nowhere.*\n\[exit code 3\]$/);
  assert.equal(workspace.text('file'), 'partial\n');
});

test('binary files pass through unchanged', async () => {
  const bytes = Uint8Array.from({ length: 1_024 }, (_, index) => index % 256);
  const workspace = new MemoryWorkspace({ 'in.bin': bytes });
  const outcome = await bash(
    'cp in.bin copy.bin; cat in.bin in.bin > twice.bin; wc -c < in.bin; sha256sum in.bin copy.bin | cut -c1-64 | uniq | wc -l',
    workspace,
  );
  assert.deepEqual(outcome.output.split(/\s+/), ['1024', '1']);
  assert.deepEqual(new Uint8Array((await workspace.read('copy.bin')) ?? []), bytes);
  assert.equal((await workspace.read('twice.bin'))?.length, 2_048);
});

test('a command that outputs NUL or broken characters gives output that the log can hold', async () => {
  const workspace = new MemoryWorkspace({ 'in.bin': new Uint8Array([0, 255, 104, 105, 0]) });
  const { output } = await bash('cat in.bin', workspace);
  assert.equal(output.includes('\0'), false);
  assert.equal(output.isWellFormed(), true);
  assert.match(output, /hi/);
});

test('scripts run, what is outside the workspace is not kept, and what cannot be kept is said', async () => {
  const workspace = new MemoryWorkspace({ 'run.sh': '#!/bin/bash\necho "script in $PWD"\n' });
  const outcome = await bash('./run.sh; echo x > /tmp/x; mkdir empty; ln -s run.sh link', workspace);
  assert.equal(outcome.output, 'script in /workspace\n[symbolic links are not kept: link]\n[empty directories are not kept: empty]');
  assert.deepEqual(workspace.paths(), ['run.sh']);
  assert.match((await bash('cat /tmp/x', workspace)).output, /No such file/);
});

test('there is no network, no disk, no server environment and no other process', async () => {
  process.env.PARLEY_TEST_SECRET = 'hunter2';
  const workspace = new MemoryWorkspace();
  for (const command of ['curl https://example.com', 'wget x', 'python3 -c 1', 'node -e 1', 'cat /etc/passwd', 'cat /proc/1/environ']) {
    const outcome = await bash(command, workspace);
    assert.equal(outcome.isError, true, `${command}: ${outcome.output}`);
  }
  const server = await serveLocally((_request, response) => response.end());
  await bash(`exec 3<>/dev/tcp/127.0.0.1/${server.port}; echo GET / >&3; cat <&3; curl ${server.origin}`, workspace);
  assert.equal(server.connections(), 0);
  server.close();
  assert.doesNotMatch((await bash('env; set; cat /proc/self/environ', workspace)).output, /hunter2/);
});

test('a command that waits too long is ended, and the process serves the next', async () => {
  await withPool({ processes: 1, timeoutMs: 1_000 }, async (pool) => {
    const workspace = new MemoryWorkspace();
    const outcome = await bash('echo x > file; sleep 60', workspace, pool);
    assert.deepEqual(outcome, { output: 'The command took longer than 1 s and was ended. No file was changed.', isError: true });
    assert.equal((await bash('echo next', workspace, pool)).output, 'next');
  });
});

test('a file that a command no longer waits for is not given to the next, which has another workspace', async () => {
  await withPool({ processes: 1, timeoutMs: 10_000 }, async (pool) => {
    const mine = new MemoryWorkspace({ 'notes.txt': 'mine' });
    const theirs = new MemoryWorkspace({ 'notes.txt': 'theirs' });
    const late = Promise.withResolvers<void>();
    mine.read = () => late.promise.then(() => Buffer.from('mine'));
    theirs.read = async () => {
      late.resolve();
      await sleep(50);
      return Buffer.from('theirs');
    };
    assert.equal((await bash('timeout 0.1 cat notes.txt', mine, pool)).isError, true);
    assert.equal((await bash('cat notes.txt', theirs, pool)).output, 'theirs');
  });
});

test('a command that never yields is killed hard', async () => {
  await withPool({ processes: 1, timeoutMs: 300 }, async (pool) => {
    const outcome = await bash("awk 'BEGIN{for(i=0;i<9000;i++)for(j=0;j<9000;j++)x+=j}'", new MemoryWorkspace(), pool);
    assert.match(outcome.output, /longer than 0.3 s/);
    assert.equal((await bash('echo next', new MemoryWorkspace(), pool)).output, 'next');
  });
});

const bombs: [string, string][] = [
  ['doubles a string', 'x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done'],
  ['fills arrays', 'for ((i = 0; ; i++)); do list[i]=$(printf "%01000d" $i); done'],
  ['doubles a file', 'echo 0123456789 > f; while true; do cat f f > g; mv g f; done'],
  ['expands braces', 'echo {1..100}{1..100}{1..100}{1..100}{1..100}'],
  ['recurses', 'f() { f "$@" "$@"; }; f a b c'],
];
for (const [what, command] of bombs) {
  test(`a command that ${what} fails and leaves the server alone`, async () => {
    await withPool({ processes: 1, timeoutMs: 1_500 }, async (pool) => {
      const before = process.memoryUsage.rss();
      const outcome = await bash(command, new MemoryWorkspace(), pool);
      assert.equal(outcome.isError, true, outcome.output.slice(0, 200));
      assert(outcome.output.length <= maxToolOutputCharacters);
      assert(process.memoryUsage.rss() - before < 300_000_000);
      assert.equal((await bash('echo next', new MemoryWorkspace(), pool)).output, 'next');
    });
  });
}

test('a memory bomb that gets past the shell is stopped by the process limit', async () => {
  await withPool({ processes: 1, timeoutMs: 10_000 }, async (pool) => {
    const command = 'x=$(seq 1 100000); for ((i = 0; i < 100000; i++)); do declare "v$i=$x$i"; done; echo survived';
    const outcome = await bash(command, new MemoryWorkspace(), pool);
    assert.equal(outcome.isError, true);
    assert.doesNotMatch(outcome.output, /survived/);
    assert.equal((await bash('echo next', new MemoryWorkspace(), pool)).output, 'next');
  });
});

test('endless output is bounded and the cut is said; errors stay visible', async () => {
  const outcome = await bash('seq 1 200000; echo problem >&2; exit 1');
  assert(outcome.output.length <= maxToolOutputCharacters);
  assert.match(outcome.output, /^1\n2\n3\n/);
  const [shown = '', leftOut] = outcome.output.split(/\n\[output truncated: (\d+) characters left out\]\nproblem\n\[exit code 1\]$/);
  assert.equal(shown.length + Number(leftOut), 1_288_895, 'all of the 200,000 lines');
});

test('a file beyond the limit, or too many files, change nothing and say why', async () => {
  const workspace = new MemoryWorkspace({ 'keep.txt': 'kept' });
  const large = await bash('rm keep.txt; printf %011000000d 1 > large', workspace);
  assert.equal(large.isError, true);
  assert.match(large.output, /no file was changed: large would be 11000000 bytes; a file may have 10485760/);
  const many = await bash('for i in $(seq 2001); do echo > f$i; done', workspace);
  assert.match(many.output, /no file was changed: The workspace would have 2002 files; it may have 2000/);
  assert.deepEqual(workspace.paths(), ['keep.txt']);
});

test('changes that the workspace cannot keep, and endless names, stay in the shell process', async () => {
  const run = (command: string) => shared.run(1, command, new MemoryWorkspace(), new AbortController().signal, async (result) => result);
  const many = await run('for i in $(seq 2001); do echo > f$i; done');
  assert(typeof many !== 'string');
  assert.deepEqual([many.changes, many.problem], [[], 'The workspace would have 2001 files; it may have 2000']);
  const long = await run('name=$(printf %0100000d 1); ln -s a "$name"; echo > "b$name"');
  assert(typeof long !== 'string');
  assert(JSON.stringify(long).length < 1_000);
});

test('aborting ends the command with the reason, also while it waits for a process', async () => {
  await withPool({ processes: 1, timeoutMs: 60_000 }, async (pool) => {
    const running = new AbortController();
    const queued = new AbortController();
    const first = bash('sleep 50', new MemoryWorkspace(), pool, running.signal);
    const second = bash('echo never', new MemoryWorkspace(), pool, queued.signal);
    const third = bash('echo third', new MemoryWorkspace(), pool);
    queued.abort(new Error('stopped waiting'));
    await assert.rejects(second, /stopped waiting/);
    running.abort(new Error('stopped running'));
    await assert.rejects(first, /stopped running/);
    assert.equal((await third).output, 'third');
    await assert.rejects(bash('echo x', new MemoryWorkspace(), pool, running.signal), /stopped running/);
  });
});

test('a command goes on when every process of the service is told to stop: the server lets running turns finish', async () => {
  const started: ChildProcess[] = [];
  subscribe('child_process', (message) => started.push((message as { process: ChildProcess }).process));
  await withPool({ processes: 1 }, async (pool) => {
    const workspace = new MemoryWorkspace({ 'notes.txt': 'kept' });
    workspace.read = async () => {
      assert.equal(started[0]?.kill('SIGTERM'), true);
      await sleep(100);
      return Buffer.from('kept');
    };
    assert.equal((await bash('cat notes.txt', workspace, pool)).output, 'kept');
  });
});

test('there are as many processes as cores, as far as the memory goes', () => {
  const GiB = 2 ** 30;
  for (const [cores, memory, processes] of [
    [1, 16, 2],
    [2.6, 16, 3],
    [8, 16, 8],
    [16, 0.5, 2],
    [16, 1, 2],
    [16, 4, 4],
    [16, 64, 16],
  ] as const)
    assert.equal(shellProcesses({ cores, memory: memory * GiB }), processes);
});

test('more commands than processes all run; idle processes end', async () => {
  const started: ChildProcess[] = [];
  subscribe('child_process', (message) => started.push((message as { process: ChildProcess }).process));
  await withPool({ processes: 2, idleMs: 50 }, async (pool) => {
    const outcomes = await Promise.all(Array.from({ length: 6 }, (_, index) => bash(`echo ${index}`, new MemoryWorkspace(), pool)));
    assert.deepEqual(
      outcomes.map((outcome) => outcome.output),
      ['0', '1', '2', '3', '4', '5'],
    );
    assert.equal(started.length, 2);
    await until(async () => started.every((child) => child.signalCode !== null || child.exitCode !== null));
    assert.equal((await bash('echo again', new MemoryWorkspace(), pool)).output, 'again');
  });
});

test('a command waits for its turn among organizations, and not behind all that another has waiting', async () => {
  await withPool({ processes: 1 }, async (pool) => {
    const ended: string[] = [];
    const { signal } = new AbortController();
    const run = async (name: string, lineId: number) => {
      await bash('true', new MemoryWorkspace(), pool, signal, lineId);
      ended.push(name);
    };
    await Promise.all([run('a1', 1), run('a2', 1), run('a3', 1), run('a4', 1), run('b1', 2), run('b2', 2), run('c1', 3)]);
    assert.deepEqual(ended, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
  });
});

test('a workspace in which a file and a directory share a path still opens', async () => {
  const workspace = new MemoryWorkspace({ a: 'file', 'a/b': 'below', c: 'c' });
  assert.deepEqual(await bash('cat c', workspace), { output: 'c', isError: false });
});

test('a command that is missing is an error of the input', async () => {
  for (const command of [undefined, '', '  ', 7, null, {}]) {
    assert.deepEqual(await bash(command), { output: 'The command is missing', isError: true });
  }
  const broken = await bash('if then fi (');
  assert.equal(broken.isError, true);
});
