import { sleep } from './backoff.ts';
import { ApiError, type ConnectionError } from './errors.ts';
import type { ManagedEvent, MessageDelta } from './managed-types.ts';
import { readEvents } from './read-events.ts';
import { disconnected, isRetryable, type Transport, waitMs } from './transport.ts';

export interface EventOptions {
  /** The `seq` to go on after. */
  after?: number;
  /** Also gives text as it is written. */
  deltas?: boolean;
  /** `idle` ends after the next `session.status_idle` or `session.error`. */
  until?: 'idle';
  signal?: AbortSignal;
  /** Told when the connection is lost, and when it is there again. */
  onConnection?: (state: 'open' | 'lost') => void;
}

interface StreamClosed {
  type: 'stream.closed';
}

/** Follows a session's log over as many connections as it takes. Throws what trying again cannot cure. */
export async function* followEvents(transport: Transport, path: string, options: EventOptions): AsyncGenerator<ManagedEvent, void> {
  const { deltas, until, signal, onConnection } = options;
  let after = options.after ?? 0;
  let lost = false;
  const drafts = new Drafts();
  for (let attempt = 0; ; attempt += 1) {
    let failure: unknown;
    try {
      const query = { after: after === 0 ? undefined : after, deltas, until };
      const call = { query, headers: { accept: 'text/event-stream' }, maxRetries: 0, ...(signal === undefined ? {} : { signal }) };
      const response = await transport.open('GET', path, call);
      if (lost) onConnection?.('open');
      lost = false;
      drafts.restart();
      for await (const data of readEvents(response)) {
        attempt = 0;
        const event: ManagedEvent | StreamClosed = JSON.parse(data);
        // The server says why it hangs up; where that matters, the next attempt is told the same with its status.
        if (event.type === 'stream.closed') continue;
        if (event.type === 'agent.message_delta') {
          const rest = drafts.rest(event);
          if (rest !== undefined) yield rest;
          continue;
        }
        if (event.seq <= after) continue;
        after = event.seq;
        yield event;
        if (until === 'idle' && (event.type === 'session.status_idle' || event.type === 'session.error')) return;
      }
    } catch (error) {
      failure = error;
    }
    const problem = failure instanceof ApiError ? failure : disconnected(failure, signal);
    if (!canRecover(problem)) throw problem;
    if (!lost) onConnection?.('lost');
    lost = true;
    await sleep(waitMs(problem, attempt), signal);
  }
}

/** A new connection begins with the whole text so far: what the caller has of it is left out, so that the sum stays right. */
class Drafts {
  #id = '';
  #given = 0;
  #told = 0;

  restart(): void {
    this.#told = 0;
  }

  rest(delta: MessageDelta): MessageDelta | undefined {
    if (delta.message_id !== this.#id) {
      this.#id = delta.message_id;
      this.#given = 0;
      this.#told = 0;
    }
    const text = delta.text.slice(Math.max(0, this.#given - this.#told));
    this.#told += delta.text.length;
    this.#given = Math.max(this.#given, this.#told);
    return text === '' ? undefined : { ...delta, text };
  }
}

/** Besides what any request may repeat: a proxy's words while the server behind it starts again. */
function canRecover(problem: ApiError | ConnectionError): boolean {
  return isRetryable(problem) || (problem instanceof ApiError && problem.status >= 500);
}
