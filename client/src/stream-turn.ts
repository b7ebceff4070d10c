import { sleep } from './backoff.ts';
import { newKey } from './new-key.ts';
import type { RequestOptions } from './options.ts';
import { readEvents } from './read-events.ts';
import { ToldAgain } from './told-again.ts';
import { disconnected, type Transport, waitMs } from './transport.ts';
import type { TurnEvent } from './types.ts';

/** Attempts without a single new event, after which a turn's stream is given up. */
const mostBrokenAttempts = 8;

/**
 * The events of one native turn. Its key makes a second request the same turn, told again from its start: what was seen
 * before the connection broke is left out, so the caller gets every event once and the text without a gap. A step that the
 * model has to write again, and writes differently, begins anew with another `step_start` of its number.
 */
export async function* streamTurn(
  transport: Transport,
  path: string,
  body: unknown,
  options: RequestOptions,
): AsyncGenerator<TurnEvent, void> {
  const idempotencyKey = options.idempotencyKey ?? newKey();
  const turn = new ToldAgain();
  for (let broken = 0; ; broken += 1) {
    const response = await transport.open('POST', path, { ...options, idempotencyKey, body, headers: { accept: 'text/event-stream' } });
    turn.restart();
    let failure: unknown;
    try {
      for await (const data of readEvents(response)) {
        const told: TurnEvent = JSON.parse(data);
        if (endsStreamOnly(told)) break;
        for (const event of turn.fresh(told)) {
          broken = 0;
          yield event;
        }
        if (isLast(told)) return;
      }
    } catch (error) {
      failure = error;
    }
    const lost = disconnected(failure, options.signal);
    if (broken >= mostBrokenAttempts) throw lost;
    await sleep(waitMs(lost, broken), options.signal);
  }
}

function isLast(event: TurnEvent): boolean {
  return event.type === 'done' || event.type === 'error' || event.type === 'input_required';
}

/** The server ended the stream, not the turn: asking again brings the rest, or says why there is none for this caller. */
function endsStreamOnly(event: TurnEvent): boolean {
  const reasons = ['server_shutdown', 'database_unavailable', 'credential_revoked', 'token_expired'];
  return event.type === 'error' && reasons.includes(event.data.code);
}
