import { totalmem } from 'node:os';

/** Bytes of memory that this container may use, or that the machine has. */
export function usableMemory(): number {
  return Math.min(process.constrainedMemory() || Infinity, totalmem());
}
