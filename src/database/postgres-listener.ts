import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { reconnected } from './bus.ts';
import { locks } from './locks.ts';

const connectMs = 5_000;
const retryMs = 250;
/** A connection that only listens may receive nothing for hours: a query now and then shows whether it is still alive. */
const checkEveryMs = 2_000;
const answerMs = 2_000;
/** A timeout that the operator set for idle sessions would close our connections, sometimes just as a statement is sent. */
export const stayIdle = 'set idle_session_timeout = 0';

export interface Listener {
  start(receive: (payload: string) => void): Promise<void>;
  stop(): Promise<void>;
}

/** Holds one connection for LISTEN and opens it again when it breaks. The receiver gets `reconnected`, since it may have missed notices. */
export function createListener(url: string): Listener {
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;
  let check: NodeJS.Timeout | undefined;
  let stopped = false;

  async function connect(receive: (payload: string) => void): Promise<void> {
    const next = new pg.Client({ connectionString: url, connectionTimeoutMillis: connectMs, query_timeout: answerMs, keepAlive: true });
    next.on('notification', (message) => receive(message.payload ?? ''));
    next.on('error', () => {});
    next.on('end', () => {
      if (!stopped && client === next) reconnect(receive);
    });
    try {
      await next.connect();
      await next.query(`${stayIdle}; select pg_advisory_lock_shared(${locks.serving}); listen parley`);
    } catch (error) {
      cut(next);
      throw error;
    }
    if (stopped) return cut(next);
    client = next;
    clearInterval(check);
    check = setInterval(() => void cutIfDead(next), checkEveryMs).unref();
  }

  function reconnect(receive: (payload: string) => void): void {
    clearInterval(check);
    client = undefined;
    // `stop` was called while it was connecting.
    if (stopped) return;
    retry = setTimeout(() => {
      connect(receive).then(
        () => receive(reconnected),
        () => reconnect(receive),
      );
    }, retryMs);
  }

  return {
    start: connect,
    async stop() {
      stopped = true;
      clearTimeout(retry);
      clearInterval(check);
      // A dead connection would never answer the request to end it.
      await Promise.race([client?.end().catch(() => {}), sleep(connectMs, undefined, { ref: false })]);
    },
  };
}

async function cutIfDead(client: pg.Client): Promise<void> {
  try {
    await client.query('select 1');
  } catch {
    cut(client);
  }
}

/** Closes the socket without PostgreSQL's closing message, which could take as long as the query that failed. */
function cut(client: pg.Client): void {
  client.connection.stream.destroy();
}
