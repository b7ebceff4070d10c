/** How often one model call is tried. */
export const maxAttempts = 3;

/** How many milliseconds to wait after this attempt failed: at least as long as the provider asks for, but no longer than 20 s. */
export function retryDelay(attempt: number, retryAfterSeconds: number | undefined): number {
  const backoff = 200 * 2 ** (attempt - 1) * (1 + Math.random() / 4);
  return Math.min(20_000, Math.max(backoff, (retryAfterSeconds ?? 0) * 1000));
}
