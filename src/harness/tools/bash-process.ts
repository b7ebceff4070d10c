import { type ChildProcess, spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Workspace } from '../tool.ts';
import type { FromShell, ShellResult, ToShell } from './bash-messages.ts';

/** Why a command has no result. */
export type ShellFailure = 'timed-out' | 'crashed';

/** A shell process: runs commands one after another until it is ended, ends itself, or fails one. */
export class ShellProcess {
  private readonly child: ChildProcess;
  /** Commands begun, and the time they took: the pool replaces a process after some. */
  commands = 0;
  busyMs = 0;
  ended = false;

  /** `lifeMs` is what all its commands may take together. */
  constructor(lifeMs: number) {
    const [file, args] = commandLine(Math.ceil(lifeMs / 1_000) + 30);
    // An empty environment, because the server's has secrets in it.
    this.child = spawn(file, args, { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], serialization: 'advanced', env: {} });
    this.child.once('exit', () => {
      this.ended = true;
    });
    this.child.on('error', () => {
      this.ended = true;
    });
    this.unref();
  }

  /** Kills it at once; a command that runs in it fails with `crashed`. */
  end(): void {
    this.ended = true;
    this.child.kill('SIGKILL');
  }

  /** Throws the signal's reason when it aborts, which ends the process. */
  async run(command: string, workspace: Workspace, timeoutMs: number, signal: AbortSignal): Promise<ShellResult | ShellFailure> {
    const files = await workspace.list();
    signal.throwIfAborted();
    const began = performance.now();
    this.commands += 1;
    this.child.ref();
    this.child.channel?.ref();
    try {
      return await this.exchange({ type: 'run', command, files, timeoutMs }, workspace, signal);
    } finally {
      this.busyMs += performance.now() - began;
      this.unref();
    }
  }

  private exchange(request: ToShell & { type: 'run' }, workspace: Workspace, signal: AbortSignal): Promise<ShellResult | ShellFailure> {
    const child = this.child;
    return new Promise((resolve, reject) => {
      const settle = (action: () => void) => {
        clearTimeout(deadline);
        signal.removeEventListener('abort', abort);
        child.off('message', receive).off('exit', crash).off('error', crash);
        action();
      };
      const fail = (error: unknown) => {
        this.end();
        settle(() => reject(error));
      };
      const abort = () => fail(signal.reason);
      const crash = () => settle(() => resolve('crashed'));
      // The shell stops itself at its deadline; one that cannot, because it never yields, is killed.
      const deadline = setTimeout(() => {
        this.end();
        settle(() => resolve('timed-out'));
      }, request.timeoutMs + graceMs);
      let reading = 0;
      const receive = (message: FromShell) => {
        if (message.type === 'read') {
          reading += 1;
          workspace.read(message.path).then((content) => {
            reading -= 1;
            this.send({ type: 'content', path: message.path, content });
          }, fail);
          return;
        }
        // The command ended while it waited for a file, as `timeout 1 cat` can. The next command, of another workspace, must not get that.
        if (reading > 0) this.end();
        settle(() => resolve(message));
      };
      child.on('message', receive).once('exit', crash).once('error', crash);
      signal.addEventListener('abort', abort, { once: true });
      if (this.ended) return crash();
      this.send(request);
    });
  }

  private send(message: ToShell): void {
    // If the process has died, its `exit` event says so.
    this.child.send(message, () => {});
  }

  /** So that an idle shell does not keep the server running. */
  private unref(): void {
    this.child.unref();
    this.child.channel?.unref();
  }
}

const graceMs = 1_000;
const heapMegabytes = 256;
// The kernel's limit on the process's writable virtual memory, of which node itself takes about 0.7 GB.
const dataKilobytes = 1_300_000;

// The limit on CPU time is for a process in an endless loop whose parent has died; any other ends or is replaced before.
function commandLine(cpuSeconds: number): [file: string, args: string[]] {
  const args = [
    '--permission',
    ...readablePaths().map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${heapMegabytes}`,
    '--v8-pool-size=1',
    '--no-warnings',
    programFile,
  ];
  if (process.platform === 'win32') return [process.execPath, args];
  const limited = `ulimit -c 0; ulimit -t ${cpuSeconds}; ulimit -d ${dataKilobytes} 2>/dev/null; exec "$0" "$@"`;
  return ['/bin/sh', ['-c', limited, process.execPath, ...args]];
}

/** Where the program and its packages may be: node looks for packages in each folder above the program. */
function readablePaths(): string[] {
  const packages = realpathSync(fileURLToPath(import.meta.resolve('just-bash')));
  const paths = [
    dirname(dirname(programFile)),
    limitsFile,
    packages.slice(0, packages.lastIndexOf('node_modules') + 'node_modules'.length),
  ];
  for (let folder = dirname(programFile); folder !== dirname(folder); folder = dirname(folder)) {
    paths.push(join(folder, 'node_modules'), join(folder, 'package.json'));
  }
  return paths;
}

const programFile = fileURLToPath(import.meta.resolve('./bash-child.ts'));
/** Which the program imports, from outside of its folder. */
const limitsFile = fileURLToPath(import.meta.resolve('../../workspace-limits.ts'));
