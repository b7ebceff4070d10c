import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../errors.ts';
import { holdDirectory, isDirectoryHeld } from './directory-socket.ts';

/** Long against the moment between reading a stale lock and replacing it. */
const settleMs = 100;

/** PGlite does not lock its directory, and two openers destroy each other's data: so a file that names us does. */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  const file = join(directory, 'parley.pid');
  const mine = describe(process.pid);
  if (await isDirectoryHeld(directory)) throw inUse(directory, readHolder(file));
  if (!createLock(file, mine)) {
    // Created but not yet written, or left so by a full disk.
    if (readHolder(file) === '') await sleep(settleMs);
    replaceStale(directory, file, mine);
    // Two may find the same stale lock; the one that wrote last has it.
    await sleep(settleMs);
    const holder = readHolder(file);
    if (holder !== mine) throw inUse(directory, holder);
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

function replaceStale(directory: string, file: string, mine: string): void {
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
  // In a container a restarted server gets the pid of the one that crashed: when it began tells them apart.
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

/** A pid and, where the system tells (Linux), when its process began. */
function describe(pid: number): string {
  return `${pid} ${startOf(pid)}`.trimEnd();
}

function startOf(pid: number): string {
  try {
    // The name, in brackets, may hold spaces; the start is the 22nd field, 20 after it.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    // One that was killed and whose parent has not taken note keeps its pid, in a container without an init for ever.
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
