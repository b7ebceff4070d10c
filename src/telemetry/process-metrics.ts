import { readdir } from 'node:fs/promises';
import type { Bus } from '../database/bus.ts';
import type { Database } from '../database/database.ts';
import { openFilesLimit } from '../load/limit-connections.ts';
import type { WaitingRoom } from '../load/waiting-room.ts';
import type { Courier } from '../outbox/courier.ts';
import type { Feed } from '../session/feed.ts';
import type { SessionLog } from '../session/log.ts';
import type { Runner } from '../turn/runner.ts';
import type { Metrics } from './metrics.ts';

/** Metrics of what runs and what waits in this process, read at each scrape. */
export function watchProcess(
  metrics: Metrics,
  parts: { runner: Runner; feed: Feed; waitingRoom: WaitingRoom; log: SessionLog; courier: Courier; database: Database; bus: Bus },
): void {
  const { runner, feed, waitingRoom, log, courier, database, bus } = parts;
  if (process.platform === 'linux') {
    // The folder cannot be read when no descriptor is free. That must not take away all other metrics.
    const limit = openFilesLimit();
    metrics.gauge('process_open_fds', 'Open file descriptors', () =>
      readdir('/proc/self/fd').then(
        ({ length }) => length,
        () => limit,
      ),
    );
  }
  metrics.gauge('parley_turns_running', 'Turns running in this process', () => runner.running.size);
  metrics.gauge('parley_watchers', 'Streams and waiting requests that follow a session', () => feed.watcherCount);
  metrics.gauge('parley_requests_working', 'Requests being processed', () => waitingRoom.working);
  metrics.gauge('parley_requests_waiting', 'Requests waiting for a slot', () => waitingRoom.waiting);
  metrics.counter('parley_requests_shed_total', 'Requests refused with 503 because too many were waiting', () => waitingRoom.shed);
  metrics.gauge('parley_log_writes_waiting', 'Log writes waiting for the current statement', () => log.waitingWrites);
  metrics.gauge('parley_deliveries_running', 'Webhook and gateway delivery attempts in progress', () => courier.running);
  metrics.counter('parley_deliveries_delivered_total', 'Successful delivery attempts', () => courier.delivered);
  metrics.counter('parley_deliveries_failed_total', 'Failed delivery attempts', () => courier.failed);
  metrics.gauge('parley_database_connections', 'Open connections to the database', () => database.pool().open);
  metrics.gauge('parley_database_connections_idle', 'Idle connections to the database', () => database.pool().idle);
  metrics.gauge('parley_database_waiting', 'Statements waiting for a connection', () => database.pool().waiting);
  const { isConnected } = bus;
  if (isConnected !== undefined)
    metrics.gauge('parley_redis_connected', '1 while this process is connected to Redis, otherwise 0', () => Number(isConnected()));
}
