/** The last time that a list was read. */
interface Poll {
  text: string;
  milliseconds: number;
  millisecondsBefore: number;
  /** How many times in a row it was the same as before. */
  unchanged: number;
}

export const noPoll: Poll = { text: '', milliseconds: 0, millisecondsBefore: 0, unchanged: 0 };

export function notePoll(before: Poll, text: string, milliseconds: number): Poll {
  return { text, milliseconds, millisecondsBefore: before.milliseconds, unchanged: text === before.text ? before.unchanged + 1 : 0 };
}

/**
 * A list that takes a second to read is read every 25 seconds at most: reading it takes up to a 25th of the time. Once is not enough
 * for that: a server that was busy for a moment would leave the page out of date for a minute.
 */
const shareOfTime = 25;
/** A list in which nothing changes for long is read at up to this many times the interval. */
const maxSlowdown = 3;

/** Milliseconds until the next read of a list: the given interval, or longer if the list is slow to read or does not change. */
export function pollInterval(interval: number, { milliseconds, millisecondsBefore, unchanged }: Poll): number {
  return Math.max(interval * Math.min(maxSlowdown, 1 + unchanged / 10), Math.min(milliseconds, millisecondsBefore) * shareOfTime);
}
