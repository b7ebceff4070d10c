import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** A program under test, in a process of its own. */
export interface Program {
  url: string;
  pid: number;
  stop(): Promise<void>;
}

const clockTickMs = 10;

/** Starts a script of this folder that prints `ready <port>` once it listens. */
export async function startProgram(script: string, args: string[]): Promise<Program> {
  const child = spawn(process.execPath, [join(import.meta.dirname, script), ...args], {
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const port = await readyPort(child);
  return { url: `http://127.0.0.1:${port}`, pid: child.pid ?? 0, stop: () => stop(child) };
}

export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

async function readyPort(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('the program has no output');
  for await (const line of createInterface({ input: child.stdout })) {
    const port = /^ready (\d+)$/.exec(line)?.[1];
    if (port !== undefined) return port;
  }
  throw new Error('the program ended before it was ready');
}

/** CPU time of a process and everything below it, as the kernel counts it (Linux only). */
export function cpuMs(pids: number[]): number {
  return pids.flatMap(withDescendants).reduce((sum, pid) => sum + (readCpu(pid) ?? 0), 0);
}

export function rssMiB(pid: number): number {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(kib ?? 0) / 1024);
}

function withDescendants(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) if (/^\d+$/.test(name)) parents.set(Number(name), readParent(Number(name)));
  const found = [pid];
  // The loop also visits what it adds.
  for (const ancestor of found) for (const [child, parent] of parents) if (parent === ancestor) found.push(child);
  return found;
}

/** The fields after the command's name, which may itself contain spaces. */
function readStat(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(') ') + 2).split(' ');
  } catch {
    return undefined;
  }
}

function readParent(pid: number): number {
  return Number(readStat(pid)?.[1] ?? -1);
}

function readCpu(pid: number): number | undefined {
  const fields = readStat(pid);
  if (fields === undefined) return undefined;
  // utime, stime, cutime and cstime: its own time, and that of its children that have ended.
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * clockTickMs;
}
