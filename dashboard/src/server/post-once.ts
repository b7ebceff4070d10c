import { untilReachable } from './connection.ts';
import { post, RequestError } from './request.ts';

/** A POST that is repeated while the server is away. The idempotency key makes sure that it takes effect only once. */
export function postOnce<Answer>(path: string, body: unknown): Promise<Answer> {
  const idempotencyKey = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  return untilAnswered(() => post<Answer>(path, body, { idempotencyKey }));
}

/** Repeats a request while the server is away. Only for requests that are safe to repeat. */
export async function untilAnswered<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof RequestError) || !error.isTemporary || attempt === 20) throw error;
      await untilReachable();
      await new Promise((resolve) => setTimeout(resolve, error.waitMs ?? 250));
    }
  }
}
