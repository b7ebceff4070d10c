import { untilReachable } from './connection.ts';
import { post, RequestError } from './request.ts';

/** Sends what a person wrote, once, however often the connection breaks on the way: the key makes a repetition harmless. */
export function postOnce<Answer>(path: string, body: unknown): Promise<Answer> {
  const idempotencyKey = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  return untilAnswered(() => post<Answer>(path, body, { idempotencyKey }));
}

/** Asks again while the server is away: only for what may be asked twice. */
export async function untilAnswered<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof RequestError) || !error.isPassing || attempt === 20) throw error;
      await untilReachable();
      await new Promise((resolve) => setTimeout(resolve, error.waitMs ?? 250));
    }
  }
}
