import { sleep } from './backoff.ts';
import { ConnectionError } from './errors.ts';
import type { RequestOptions } from './options.ts';
import { readFrames } from './read-events.ts';
import { disconnected, type Transport, waitMs } from './transport.ts';
import type { TurnEvent } from './types.ts';

/** Attempts without a single new event, after which a turn's stream is given up. */
const mostBrokenAttempts = 8;

/**
 * The events of one native turn. Its key makes a second request the same turn, told again from its start: what was seen
 * before the connection broke is left out, so the caller gets every event once and the text without a gap.
 */
export async function* streamTurn(
  transport: Transport,
  path: string,
  body: unknown,
  options: RequestOptions,
): AsyncGenerator<TurnEvent, void> {
  const idempotencyKey = options.idempotencyKey ?? crypto.randomUUID();
  const seen = new Seen();
  for (let broken = 0; ; broken += 1) {
    const response = await transport.open('POST', path, { ...options, idempotencyKey, body, headers: { accept: 'text/event-stream' } });
    seen.restart();
    let failure: unknown;
    try {
      for await (const { data } of readFrames(bodyOf(response))) {
        const told: TurnEvent = JSON.parse(data);
        if (endsStreamOnly(told)) break;
        const event = seen.rest(told);
        if (event === undefined) continue;
        broken = 0;
        yield event;
        if (isLast(event)) return;
      }
    } catch (error) {
      failure = error;
    }
    const lost = disconnected(failure, options.signal);
    if (broken >= mostBrokenAttempts) throw lost;
    await sleep(waitMs(lost, broken), options.signal);
  }
}

export function bodyOf(response: Response): ReadableStream<Uint8Array> {
  if (response.body === null) throw new ConnectionError('The answer has no body');
  return response.body;
}

function isLast(event: TurnEvent): boolean {
  return event.type === 'done' || event.type === 'error' || event.type === 'input_required';
}

/** The server ended the stream, not the turn: asking again brings the rest, or says why there is none for this caller. */
function endsStreamOnly(event: TurnEvent): boolean {
  const reasons = ['server_shutdown', 'database_unavailable', 'credential_revoked', 'token_expired'];
  return event.type === 'error' && reasons.includes(event.data.code);
}

/** How much of each step was given out. Told again, its text may be cut into other pieces; only its length counts. */
class Seen {
  readonly #given = new Map<string, number>();
  readonly #told = new Map<string, number>();
  #step = 0;

  /** The turn is told from its start. */
  restart(): void {
    this.#told.clear();
    this.#step = 0;
  }

  /** What of this event is new; undefined when nothing is. */
  rest(event: TurnEvent): TurnEvent | undefined {
    if (event.type === 'step_start') this.#step = event.data.step;
    const [key, length] = this.#measure(event);
    const told = this.#told.get(key) ?? 0;
    const given = this.#given.get(key) ?? 0;
    this.#told.set(key, told + length);
    if (told + length <= given) return undefined;
    this.#given.set(key, told + length);
    return told >= given ? event : cut(event, given - told);
  }

  #measure(event: TurnEvent): [string, number] {
    if (event.type === 'text' || event.type === 'reasoning') return [`${event.type} ${this.#step}`, event.data.part.text.length];
    if (event.type === 'tool_use') return [`tool_use ${event.data.part.id} ${event.data.part.state}`, 1];
    return [`${event.type} ${this.#step}`, 1];
  }
}

function cut(event: TurnEvent, from: number): TurnEvent {
  switch (event.type) {
    case 'text':
      return { ...event, data: { part: { type: 'text', text: event.data.part.text.slice(from) } } };
    case 'reasoning':
      return { ...event, data: { part: { type: 'reasoning', text: event.data.part.text.slice(from) } } };
    default:
      return event;
  }
}
