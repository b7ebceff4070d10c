const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** The wait before each attempt, counted from the previous one. */
const steps = [0, 5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour];

const jitter = 0.2;

/**
 * When to try again after `attempts` failed attempts; undefined when that was the last one. The receiver may ask for more
 * time, up to twice the step. Jitter spreads out deliveries that failed at the same moment.
 */
export function nextAttemptAt(
  failedAt: Date,
  attempts: number,
  retryAfterMs: number,
  random: () => number = Math.random,
): Date | undefined {
  const step = steps[attempts];
  if (step === undefined) return undefined;
  const spread = step * (1 + jitter * (2 * random() - 1));
  const delay = Math.max(spread, Math.min(retryAfterMs, 2 * step));
  return new Date(failedAt.getTime() + Math.round(delay));
}

/**
 * By the number of failed attempts: the longest that a delivery can wait for the next one, and a minute more because the clocks
 * of processes differ a little. A delivery that is due later than that was scheduled by a clock that was ahead.
 */
export const longestWaitsMs: readonly number[] = steps.map((step) => 2 * step + minute);

/** `Retry-After` as seconds or as a date; 0 when it says nothing usable. */
export function parseRetryAfter(value: string | null, now: Date): number {
  if (value === null) return 0;
  if (/^\d{1,9}$/.test(value.trim())) return Number(value) * second;
  const date = Date.parse(value);
  return Number.isNaN(date) ? 0 : Math.max(0, date - now.getTime());
}
