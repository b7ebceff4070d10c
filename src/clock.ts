/** Time as the program sees it, so that a test can hold it still. */
export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };

/** ISO 8601 with the offset written `+00:00`, as every timestamp on the wire is. */
export function timestamp(date: Date): string {
  return date.toISOString().replace('Z', '+00:00');
}

/** The text where it is a day that exists, as `YYYY-MM-DD`; undefined for anything else. */
export function validDay(text: string | undefined): string | undefined {
  if (text === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(text) || text < '0001-01-01') return undefined;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : undefined;
}
