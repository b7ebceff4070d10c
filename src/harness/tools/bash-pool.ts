import { availableParallelism } from 'node:os';
import type { Workspace } from '../tool.ts';
import type { ShellResult } from './bash-messages.ts';
import { type ShellFailure, ShellProcess } from './bash-process.ts';

export interface ShellPool {
  /**
   * Waits for a free process, in a line with the other commands of `whose`; the lines take turns. Throws the signal's reason when
   * it aborts; the command is then over.
   */
  run(whose: number, command: string, workspace: Workspace, signal: AbortSignal): Promise<ShellResult | ShellFailure>;
  /** Starts a process ahead of the first command, which otherwise waits about 0.2 s for it. */
  warm(): void;
  /** Ends every process. Commands that run fail. */
  close(): void;
  readonly timeoutMs: number;
}

export interface ShellPoolOptions {
  processes?: number;
  timeoutMs?: number;
  /** How long a process without work is kept. */
  idleMs?: number;
}

/** A few shell processes, shared by all turns. The owner closes it. */
export function createShellPool(options: ShellPoolOptions = {}): ShellPool {
  const { processes = Math.max(2, availableParallelism()), timeoutMs = 30_000, idleMs = 60_000 } = options;
  const idle: { shell: ShellProcess; timer: NodeJS.Timeout }[] = [];
  const busy = new Set<ShellProcess>();
  /** Whose turn it is first. None is empty. */
  const lines = new Map<number, (() => void)[]>();

  async function take(whose: number, signal: AbortSignal): Promise<ShellProcess> {
    while (busy.size >= processes) await turnToCome(whose, signal);
    for (let last = idle.pop(); last !== undefined; last = idle.pop()) {
      clearTimeout(last.timer);
      if (!last.shell.ended) return hold(last.shell);
    }
    return hold(new ShellProcess(maxBusyMs + timeoutMs));
  }

  function hold(shell: ShellProcess): ShellProcess {
    busy.add(shell);
    return shell;
  }

  function give(shell: ShellProcess): void {
    busy.delete(shell);
    if (shell.commands >= maxCommands || shell.busyMs >= maxBusyMs) shell.end();
    if (!shell.ended) keep(shell);
    callNext();
  }

  function callNext(): void {
    const [first] = lines;
    if (first === undefined) return;
    const [whose, line] = first;
    const proceed = line.shift();
    lines.delete(whose);
    if (line.length > 0) lines.set(whose, line);
    proceed?.();
  }

  function keep(shell: ShellProcess): void {
    const timer = setTimeout(() => {
      idle.splice(
        idle.findIndex((entry) => entry.shell === shell),
        1,
      );
      shell.end();
    }, idleMs);
    timer.unref();
    idle.push({ shell, timer });
  }

  function turnToCome(whose: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const proceed = () => {
        signal.removeEventListener('abort', abort);
        resolve();
      };
      const line = lines.get(whose) ?? [];
      const abort = () => {
        line.splice(line.indexOf(proceed), 1);
        if (line.length === 0) lines.delete(whose);
        reject(signal.reason);
      };
      signal.addEventListener('abort', abort, { once: true });
      line.push(proceed);
      lines.set(whose, line);
    });
  }

  return {
    timeoutMs,
    async run(whose, command, workspace, signal) {
      const shell = await take(whose, signal);
      try {
        return await shell.run(command, workspace, timeoutMs, signal);
      } finally {
        give(shell);
      }
    },
    warm() {
      if (busy.size + idle.length === 0) keep(new ShellProcess(maxBusyMs + timeoutMs));
    },
    close() {
      for (const { shell, timer } of idle.splice(0)) {
        clearTimeout(timer);
        shell.end();
      }
      for (const shell of busy) shell.end();
    },
  };
}

const maxCommands = 200;
const maxBusyMs = 30_000;
