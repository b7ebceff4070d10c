import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../errors.ts';
import { holdDirectory, isDirectoryHeld } from './directory-socket.ts';

/** Much longer than a process takes between reading a stale lock and replacing it. */
const settleMs = 100;

/**
 * PGlite does not lock its directory, and two processes that open it would destroy each other's data. So a process locks it with
 * a file that names the process and, for other containers, with a socket. Returns a function that unlocks it.
 */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  const file = join(directory, 'parley.pid');
  const mine = describe(process.pid);
  if (await isDirectoryHeld(directory)) throw inUse(directory, readHolder(file));
  if (!createLock(file, mine)) {
    // Another process may have created the file and not written it yet; or a full disk left it empty.
    if (readHolder(file) === '') await sleep(settleMs);
    replaceStaleLock(directory, file, mine);
    // Two processes may find the same stale lock: the one that replaced it last has it.
    await sleep(settleMs);
    const holder = readHolder(file);
    if (holder !== mine) throw inUse(directory, holder);
    // A process of another container, whose pid says nothing here, may not have listened yet when we asked.
    if (await isDirectoryHeld(directory)) throw inUse(directory, '');
  }
  const letGo = await holdDirectory(directory);
  return async () => {
    letGo();
    if (readHolder(file) === mine) rmSync(file, { force: true });
  };
}

function createLock(file: string, mine: string): boolean {
  try {
    writeFileSync(file, mine, { flag: 'wx' });
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

function replaceStaleLock(directory: string, file: string, mine: string): void {
  const prepared = `${file}.${process.pid}`;
  writeFileSync(prepared, mine);
  const holder = readHolder(file);
  if (isHeld(holder)) {
    rmSync(prepared, { force: true });
    throw inUse(directory, holder);
  }
  renameSync(prepared, file);
}

function readHolder(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function isHeld(holder: string): boolean {
  const pid = Number.parseInt(holder, 10);
  if (!(pid > 0) || !isAlive(pid)) return false;
  // A server restarted in a container gets the same pid as the one that crashed: their start times tell them apart.
  return /\s\d/.test(holder) ? holder === describe(pid) : pid !== process.pid;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}

/** The pid and, on Linux, the start time of its process. */
function describe(pid: number): string {
  return `${pid} ${startOf(pid)}`.trimEnd();
}

function startOf(pid: number): string {
  try {
    // The second field, the name in brackets, may contain spaces. The start time is the 22nd field: the 20th after the name.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    // A zombie, which was killed and not waited for, does not count. In a container without an init it keeps its pid forever.
    return fields[0] === 'Z' ? '' : (fields[19] ?? '');
  } catch {
    return '';
  }
}

function inUse(directory: string, holder: string): Error {
  const pid = Number.parseInt(holder, 10);
  const by = pid > 0 ? `process ${pid}` : 'another process';
  return new Error(`the data directory ${directory} is in use by ${by}; stop it, or set PARLEY_DATA_DIR to another directory`);
}
