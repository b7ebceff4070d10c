import { lastingMs, sleep } from './backoff.ts';
import { ApiError, ConnectionError, ParleyError } from './errors.ts';
import type { ManagedEvent, MessageDelta } from './managed-types.ts';
import { readEvents } from './read-events.ts';
import { connectionError, isRetryable, type Transport, waitMs } from './transport.ts';

export interface EventOptions {
  /** Only events with a `seq` above this one. */
  after?: number | undefined;
  /** Also yields the agent's text while it is being written, as `agent.message_delta`. */
  deltas?: boolean | undefined;
  /** With `idle`, the stream ends after the next `session.status_idle` or `session.error`. */
  until?: 'idle' | undefined;
  signal?: AbortSignal | undefined;
  /** Called when the connection is lost, and when it is open again. */
  onConnection?: ((state: 'open' | 'lost') => void) | undefined;
}

interface StreamClosed {
  type: 'stream.closed';
}

/** Follows a session's log and reconnects as often as necessary. Throws an error that reconnecting cannot fix. */
export async function* followEvents(transport: Transport, path: string, options: EventOptions): AsyncGenerator<ManagedEvent, void> {
  const { deltas, until, signal, onConnection } = options;
  let after = options.after ?? 0;
  let lost = false;
  const drafts = new Drafts();
  for (let attempt = 0; ; attempt += 1) {
    let failure: unknown;
    let openedAt: number | undefined;
    try {
      const query = { after: after === 0 ? undefined : after, deltas, until };
      const call = { query, headers: { accept: 'text/event-stream' }, maxRetries: 0, ...(signal === undefined ? {} : { signal }) };
      const response = await transport.open('GET', path, call);
      if (lost) onConnection?.('open');
      lost = false;
      openedAt = Date.now();
      drafts.restart();
      for await (const data of readEvents(response)) {
        attempt = 0;
        const event: ManagedEvent | StreamClosed = JSON.parse(data);
        // The server says why it is closing the stream. If the reason is permanent, the next attempt gets it as an error status.
        if (event.type === 'stream.closed') continue;
        if (event.type === 'agent.message_delta') {
          const unseen = drafts.unseenPart(event);
          if (unseen !== undefined) yield unseen;
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
    const problem = failure instanceof ParleyError ? failure : connectionError(failure, signal);
    if (!canRecover(problem)) throw problem;
    if (!lost) onConnection?.('lost');
    lost = true;
    // Many proxies end a connection after a minute, whether or not it is used.
    if (openedAt !== undefined && Date.now() - openedAt > lastingMs) attempt = 0;
    await sleep(waitMs(problem, attempt), signal);
  }
}

/**
 * A new connection repeats the whole text of the message that is being written. This leaves out what the caller already
 * has, so that its deltas still add up to the message. The two counters are lengths of that message's text.
 */
class Drafts {
  #messageId = '';
  #delivered = 0;
  /** Over the current connection. */
  #received = 0;

  restart(): void {
    this.#received = 0;
  }

  unseenPart(delta: MessageDelta): MessageDelta | undefined {
    if (delta.message_id !== this.#messageId) {
      this.#messageId = delta.message_id;
      this.#delivered = 0;
      this.#received = 0;
    }
    const text = delta.text.slice(Math.max(0, this.#delivered - this.#received));
    this.#received += delta.text.length;
    this.#delivered = Math.max(this.#delivered, this.#received);
    return text === '' ? undefined : { ...delta, text };
  }
}

/**
 * Besides what every request retries: the 5xx statuses of a proxy while the server behind it restarts. What else was thrown on purpose is
 * from the function that gives the credential: it has said that there is none.
 */
function canRecover(problem: ParleyError): problem is ApiError | ConnectionError {
  if (problem instanceof ApiError) return isRetryable(problem) || problem.status >= 500;
  return problem instanceof ConnectionError;
}
