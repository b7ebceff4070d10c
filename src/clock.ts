/** The current time, as a parameter, so that a test can set it. */
export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };

/** ISO 8601 with the offset written as `+00:00`: the form of every timestamp on the wire. */
export function timestamp(date: Date): string {
  return date.toISOString().replace('Z', '+00:00');
}

export function timestampOrNull(date: Date | undefined): string | null {
  return date === undefined ? null : timestamp(date);
}

/** The text, if it is an existing day as `YYYY-MM-DD`; otherwise undefined. */
export function validDay(text: string | undefined): string | undefined {
  if (text === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(text) || text < '0001-01-01') return undefined;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : undefined;
}
