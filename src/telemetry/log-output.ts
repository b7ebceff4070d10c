import { write, writeSync } from 'node:fs';
import { errorCode } from '../errors.ts';

const stdout = 1;
/** Lines beyond this many characters are dropped: nobody reads the output, or not fast enough. */
const maxQueued = 16 * 1024 * 1024;
/** Characters of one write. Kept small: when the process exits during a write, it cannot tell how much of it was done. */
const maxWrite = 64 * 1024;
const retryMs = 100;
/** How long the exit of the process waits for an output that is full. */
const exitWaitMs = 500;

let queued = '';
/** The rest of the last write: what the system has not taken yet. */
let unwritten = Buffer.alloc(0);
let isWriting = false;
let isOpen = false;
let isBroken = false;

/**
 * Writes a line to standard output without ever blocking the server, or its exit, which pino would delay forever when nobody reads
 * the output or the disk is full. Lines that cannot be written are lost.
 */
export function writeLine(line: string): void {
  if (isBroken || queued.length + line.length > maxQueued) return;
  if (!isOpen) open();
  queued += line;
  if (!isWriting && unwritten.length === 0) writeNext();
}

function open(): void {
  isOpen = true;
  // Reading `process.stdout` makes a write to a full pipe fail with EAGAIN instead of blocking. Its own errors must not end the process.
  process.stdout.on('error', () => {});
  process.on('exit', writeRest);
}

function writeNext(): void {
  if (unwritten.length === 0) {
    const end = queued.length <= maxWrite ? queued.length : queued.indexOf('\n', maxWrite) + 1;
    unwritten = Buffer.from(queued.slice(0, end));
    queued = queued.slice(end);
  }
  isWriting = true;
  write(stdout, unwritten, (error, written) => {
    isWriting = false;
    const isFull = errorCode(error) === 'EAGAIN';
    if (isFull) setTimeout(writeNext, retryMs).unref();
    else unwritten = unwritten.subarray(error === null ? written : unwritten.length);
    isBroken = errorCode(error) === 'EPIPE';
    if (!isFull && !isBroken && unwritten.length + queued.length > 0) writeNext();
  });
}

/** At exit. A write that is under way runs on another thread: it gets a moment to go first. */
function writeRest(): void {
  if (isWriting) sleep();
  let rest = Buffer.concat([isWriting ? Buffer.alloc(0) : unwritten, Buffer.from(queued)]);
  const until = performance.now() + exitWaitMs;
  while (rest.length > 0 && !isBroken) {
    try {
      rest = rest.subarray(writeSync(stdout, rest));
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN' || performance.now() > until) return;
      sleep();
    }
  }
}

/** Blocks: at exit, no timer fires any more. */
function sleep(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs / 10);
}
