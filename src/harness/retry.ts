/** How often a model is asked for the same thing. */
export const maxAttempts = 3;

/** How long to wait after so many attempts that failed: at least what the provider asked for, within reason. */
export function retryDelay(attempt: number, retryAfterSeconds: number | undefined): number {
  const backoff = 200 * 2 ** (attempt - 1) * (1 + Math.random() / 4);
  return Math.min(20_000, Math.max(backoff, (retryAfterSeconds ?? 0) * 1000));
}
