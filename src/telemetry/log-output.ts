import { write, writeSync } from 'node:fs';
import { errorCode } from '../errors.ts';

const descriptor = 1;
/** In characters: what waits for a reader that does not read. */
const mostWaiting = 16 * 1024 * 1024;
/** And what is given to the system at once: an end of the process cannot learn how much of that was taken. */
const mostGiven = 64 * 1024;
const againMs = 100;
/** How long an end of the process waits for such a reader. */
const patienceMs = 500;

/** Not yet given to the system. */
let waiting = '';
/** Given to it last, as far as it has not taken it; and whether it is taking it now. */
let given = Buffer.alloc(0);
let isTaking = false;
let isOpen = false;
let isBroken = false;

/**
 * Writes a line to standard output, and holds nothing up: neither the server, nor its end, for which pino would wait for good
 * where nobody reads or the disk is full. Lines that cannot be written are lost.
 */
export function writeLine(line: string): void {
  if (isBroken || waiting.length + line.length > mostWaiting) return;
  if (!isOpen) open();
  waiting += line;
  if (!isTaking && given.length === 0) give();
}

function open(): void {
  isOpen = true;
  // Once it was asked for, writing to a pipe that is full fails instead of waiting. Nobody may be reading, or its disk be full.
  process.stdout.on('error', () => {});
  process.on('exit', giveTheRest);
}

function give(): void {
  if (given.length === 0) {
    const end = waiting.length <= mostGiven ? waiting.length : waiting.indexOf('\n', mostGiven) + 1;
    given = Buffer.from(waiting.slice(0, end));
    waiting = waiting.slice(end);
  }
  isTaking = true;
  write(descriptor, given, (error, written) => {
    isTaking = false;
    const isFull = errorCode(error) === 'EAGAIN';
    if (isFull) setTimeout(give, againMs).unref();
    else given = given.subarray(error === null ? written : given.length);
    isBroken = errorCode(error) === 'EPIPE';
    if (!isFull && !isBroken && given.length + waiting.length > 0) give();
  });
}

function giveTheRest(): void {
  // What is being taken goes ahead; a thread of its own does that.
  if (isTaking) sleep();
  let rest = Buffer.concat([isTaking ? Buffer.alloc(0) : given, Buffer.from(waiting)]);
  const until = performance.now() + patienceMs;
  while (rest.length > 0 && !isBroken) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN' || performance.now() > until) return;
      sleep();
    }
  }
}

function sleep(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, againMs / 10);
}
