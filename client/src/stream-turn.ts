import { lastingMs, sleep } from './backoff.ts';
import { newKey } from './new-key.ts';
import type { RequestOptions } from './options.ts';
import { readEvents } from './read-events.ts';
import { ReplayedTurn } from './replayed-turn.ts';
import { connectionError, type Transport, waitMs } from './transport.ts';
import type { TurnEvent } from './types.ts';

/** Give up when more connections than this broke in a row, soon and without bringing a new event. */
const maxBrokenConnections = 8;

/**
 * The events of one native turn. When the connection breaks, the request is sent again with the same idempotency key: the
 * server answers with the same turn from its start, and `ReplayedTurn` leaves out what the caller already has. A step that
 * the model had to write again, and wrote differently, is delivered again, with another `step_start` of its number.
 */
export async function* streamTurn(
  transport: Transport,
  path: string,
  body: unknown,
  options: RequestOptions,
): AsyncGenerator<TurnEvent, void> {
  const idempotencyKey = options.idempotencyKey ?? newKey();
  const turn = new ReplayedTurn();
  for (let broken = 0; ; broken += 1) {
    const response = await transport.open('POST', path, { ...options, idempotencyKey, body, headers: { accept: 'text/event-stream' } });
    const openedAt = Date.now();
    turn.restart();
    let failure: unknown;
    try {
      for await (const data of readEvents(response)) {
        const received: TurnEvent = JSON.parse(data);
        if (endsStreamOnly(received)) break;
        for (const event of turn.receive(received)) {
          broken = 0;
          yield event;
        }
        if (isLast(received)) return;
      }
    } catch (error) {
      failure = error;
    }
    const lost = connectionError(failure, options.signal);
    // Many proxies end a connection after a minute, and a tool may be silent for longer than that.
    if (Date.now() - openedAt > lastingMs) broken = 0;
    if (broken >= maxBrokenConnections) throw lost;
    await sleep(waitMs(lost, broken), options.signal);
  }
}

function isLast(event: TurnEvent): boolean {
  return event.type === 'done' || event.type === 'error' || event.type === 'input_required';
}

/** The server ended the stream, not the turn: the next request gets the rest, or an error status that says why not. */
function endsStreamOnly(event: TurnEvent): boolean {
  const reasons = ['server_shutdown', 'database_unavailable', 'credential_revoked', 'token_expired'];
  return event.type === 'error' && reasons.includes(event.data.code);
}
