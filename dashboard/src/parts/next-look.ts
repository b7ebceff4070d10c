/** What the last look at a list brought. */
interface Look {
  text: string;
  milliseconds: number;
  /** How often in a row it was what it had been. */
  unchanged: number;
}

export const noLook: Look = { text: '', milliseconds: 0, unchanged: 0 };

export function noteLook(before: Look, text: string, milliseconds: number): Look {
  return { text, milliseconds, unchanged: text === before.text ? before.unchanged + 1 : 0 };
}

/** No list has more than one part in this many of the server's time. */
const share = 25;
/** How much less often a list is looked at in which nothing has changed for a while. */
const slowest = 3;

/** Milliseconds until a list is read again that is to be read at this interval: later where that is dear, or of no use. */
export function untilNextLook(interval: number, { milliseconds, unchanged }: Look): number {
  return Math.max(interval * Math.min(slowest, 1 + unchanged / 10), milliseconds * share);
}
