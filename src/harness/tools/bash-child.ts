import { AsyncLocalStorage } from 'node:async_hooks';
import { Bash, type CommandName, getCommandNames, InMemoryFs } from 'just-bash';
import type { WorkspaceFile } from '../tool.ts';
import { type FromShell, maxStreamCharacters, type ShellResult, type ToShell } from './bash-messages.ts';
import { collectChanges, LoadedFiles, withoutShadowed } from './bash-workspace.ts';
import { changesProblem } from './workspace-changes.ts';
import { workspaceRoot } from './workspace-path.ts';

/**
 * The program of a shell process: runs one command at a time over a virtual file system, with no network, no access to
 * the disk and none of the server's environment. It is ended from outside when it takes too long.
 */
const contents = new Map<string, (content: Uint8Array | undefined) => void>();
// just-bash restricts code that runs inside a command. Messages to the parent process have to be sent outside of that.
const outside = AsyncLocalStorage.snapshot();

process.on('disconnect', () => process.exit());
// systemd and others tell every process of a service to stop. The server lets a running command finish, or kills this process.
process.on('SIGTERM', () => {});
process.on('message', (message: ToShell) => {
  if (message.type === 'content') return contents.get(message.path)?.(message.content);
  run(message.command, message.files, message.timeoutMs).then(
    (result) => send({ type: 'done', ...result }),
    (error) => send({ type: 'done', ...failure(error) }),
  );
});

async function run(command: string, stored: WorkspaceFile[], timeoutMs: number): Promise<ShellResult> {
  const files = withoutShadowed(stored);
  const fileSystem = new InMemoryFs({}, { maxTotalBytes: 128 * 1024 * 1024 });
  const loaded = new LoadedFiles(requestContent);
  fileSystem.mkdirSync(workspaceRoot, { recursive: true });
  fileSystem.mkdirSync('/tmp', { recursive: true });
  for (const file of files) {
    // A workspace does not keep file modes, so every file is executable.
    fileSystem.writeFileLazy(`${workspaceRoot}/${file.path}`, () => outside(() => loaded.load(file.path)), {
      mode: 0o755,
      mtime: file.updatedAt,
    });
  }
  const bash = new Bash({
    fs: fileSystem,
    cwd: workspaceRoot,
    env: { HOME: workspaceRoot, TMPDIR: '/tmp' },
    commands: getCommandNames().filter(isOffered),
    executionLimits: { ...limits, maxExecutionTimeMs: timeoutMs },
    defenseInDepth: true,
  });
  const began = performance.now();
  const { stdout, stderr, exitCode } = await bash.exec(command, { rawScript: true });
  const timedOut = performance.now() - began >= timeoutMs;
  const { changes, notes } = timedOut ? { changes: [], notes: [] } : await collectChanges(fileSystem, files, loaded);
  // Checked here as well as by the server: to receive 300,000 files blocks it for a second.
  const problem = changesProblem(stored, changes);
  const output = { stdout: cut(stdout), stdoutCharacters: stdout.length, stderr: cut(stderr) };
  return { ...output, exitCode, timedOut, changes: problem === undefined ? changes : [], problem, notes };
}

function requestContent(path: string): Promise<Uint8Array | undefined> {
  return new Promise((resolve) => {
    contents.set(path, resolve);
    send({ type: 'read', path });
  });
}

function send(message: FromShell): void {
  process.send?.(message);
}

function cut(text: string): string {
  return text.slice(0, maxStreamCharacters);
}

function failure(error: unknown): ShellResult {
  const stderr = error instanceof Error ? error.message : String(error);
  return { stdout: '', stdoutCharacters: 0, stderr, exitCode: 1, timedOut: false, changes: [], notes: [] };
}

// sqlite3 needs a worker thread, which this process is not permitted to start.
function isOffered(name: string): name is CommandName {
  return name !== 'sqlite3';
}

// Counts are generous, because time is limited anyway; sizes are not, because memory is scarce.
const limits = {
  maxCommandCount: 1_000_000,
  maxLoopIterations: 1_000_000,
  maxAwkIterations: 10_000_000,
  maxSedIterations: 1_000_000,
  maxSourceBytes: 1024 * 1024,
  maxStringLength: 16 * 1024 * 1024,
  maxHeredocSize: 16 * 1024 * 1024,
  maxOutputSize: 32 * 1024 * 1024,
  maxLiveBytes: 128 * 1024 * 1024,
  maxInputBytes: 256 * 1024 * 1024,
  maxArchiveBytes: 128 * 1024 * 1024,
  maxArchiveEntryBytes: 64 * 1024 * 1024,
  maxArchiveCompressedBytes: 64 * 1024 * 1024,
  maxArchiveEntries: 10_000,
  maxTraversalEntries: 100_000,
};
