import type { Entry, SessionState } from '../session/state.ts';
import { valueLength } from './models/estimate-tokens.ts';
import { isSilent } from './prompt.ts';

/**
 * The most that a turn may add to its session, four times the longest answer. Nothing of a running turn can be condensed: it is in
 * memory, once more in each request to the model, and again in every process that takes the turn over.
 */
export const maxTurnCharacters = 16 * 2 ** 20;

interface Length {
  /** How many entries were looked at. */
  taken: number;
  characters: number;
}

/** By the list of entries, which only grows at its end: condensing makes another list. */
const lengths = new WeakMap<readonly Entry[], Length>();

/** The characters of what the session's last turn has added, with all names and values, so that empty calls count too. */
export function turnLength({ entries }: SessionState): number {
  const length = lengths.get(entries) ?? { taken: 0, characters: 0 };
  lengths.set(entries, length);
  for (const entry of entries.slice(length.taken)) {
    if (entry.type !== 'user') length.characters += valueLength(entry);
    else if (!isSilent(entry)) length.characters = 0;
  }
  length.taken = entries.length;
  return length.characters;
}
