import { machineShare } from '../../machine-share.ts';
import type { Workspace } from '../tool.ts';
import type { ShellResult } from './bash-messages.ts';
import { type ShellFailure, ShellProcess } from './bash-process.ts';

export interface ShellPool {
  /**
   * Waits for a free process and runs the command. Commands with the same `lineId` wait in one line, and the lines take turns. Throws
   * the signal's reason when it aborts, which ends the command. The process is taken until `use` is done with the result, so that no
   * more results are in memory than there are processes.
   */
  run<Outcome>(
    lineId: number,
    command: string,
    workspace: Workspace,
    signal: AbortSignal,
    use: (result: ShellResult | ShellFailure) => Promise<Outcome>,
  ): Promise<Outcome>;
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
  const { processes = shellProcesses(machineShare()), timeoutMs = 30_000, idleMs = 60_000 } = options;
  const idle: { shell: ShellProcess; timer: NodeJS.Timeout }[] = [];
  const busy = new Set<ShellProcess>();
  /** Waiting commands by `lineId`. The line that is served next comes first, and none is empty. */
  const lines = new Map<number, (() => void)[]>();

  async function take(lineId: number, signal: AbortSignal): Promise<ShellProcess> {
    while (busy.size >= processes) await waitInLine(lineId, signal);
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

  function release(shell: ShellProcess): void {
    busy.delete(shell);
    if (shell.commands >= maxCommands || shell.busyMs >= maxBusyMs) shell.end();
    if (!shell.ended) keep(shell);
    callNext();
  }

  function callNext(): void {
    const [first] = lines;
    if (first === undefined) return;
    const [lineId, line] = first;
    const proceed = line.shift();
    lines.delete(lineId);
    if (line.length > 0) lines.set(lineId, line);
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

  function waitInLine(lineId: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const proceed = () => {
        signal.removeEventListener('abort', abort);
        resolve();
      };
      const line = lines.get(lineId) ?? [];
      const abort = () => {
        line.splice(line.indexOf(proceed), 1);
        if (line.length === 0) lines.delete(lineId);
        reject(signal.reason);
      };
      signal.addEventListener('abort', abort, { once: true });
      line.push(proceed);
      lines.set(lineId, line);
    });
  }

  return {
    timeoutMs,
    async run(lineId, command, workspace, signal, use) {
      const shell = await take(lineId, signal);
      try {
        return await use(await shell.run(command, workspace, timeoutMs, signal));
      } finally {
        release(shell);
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

/**
 * One per core, because commands compute, and per GiB of memory: an idle process takes 90 MB, and 16 with a modest command each ended a
 * server that may use 1 GiB. At least two, so that one long command does not hold up everybody.
 */
export function shellProcesses({ cores, memory }: { cores: number; memory: number }): number {
  return Math.max(2, Math.min(Math.round(cores), Math.round(memory / 2 ** 30)));
}

/** A process is replaced after this many commands, or this much time, so that nothing accumulates in it. */
const maxCommands = 200;
const maxBusyMs = 30_000;
