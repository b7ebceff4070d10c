/** How much of the fault suite to run: the short form is part of every `npm test`. */
export const isLong = process.env.PARLEY_FAULTS === 'long';

/** Printed by every test that uses chance; set PARLEY_FAULT_SEED to it to play the same choices again. */
export const seed = Number(process.env.PARLEY_FAULT_SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Numbers from 0 to 1 that only depend on the seed (mulberry32). */
export function chances(from: number): () => number {
  let state = from;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
