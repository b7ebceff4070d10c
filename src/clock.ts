/** Time as the program sees it, so that a test can hold it still. */
export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };

/** ISO 8601 with the offset written `+00:00`, as every timestamp on the wire is. */
export function timestamp(date: Date): string {
  return date.toISOString().replace('Z', '+00:00');
}
