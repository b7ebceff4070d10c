import { readdir } from 'node:fs/promises';
import type { WaitingRoom } from './accounts/waiting-room.ts';
import type { Database } from './database/database.ts';
import type { Metrics } from './metrics.ts';
import type { Courier } from './outbox/courier.ts';
import type { Feed } from './session/feed.ts';
import type { SessionLog } from './session/log.ts';
import type { Runner } from './turn/runner.ts';

/** What is under way and what waits in this process, read when somebody asks. */
export function watchProcess(
  metrics: Metrics,
  parts: { runner: Runner; feed: Feed; waitingRoom: WaitingRoom; log: SessionLog; courier: Courier; database: Database },
): void {
  const { runner, feed, waitingRoom, log, courier, database } = parts;
  if (process.platform === 'linux')
    metrics.gauge('process_open_fds', 'Open file descriptors', async () => (await readdir('/proc/self/fd')).length);
  metrics.gauge('parley_turns_running', 'Turns that run in this process', () => runner.running.size);
  metrics.gauge('parley_watchers', 'Streams and waiting requests that watch a session', () => feed.watcherCount);
  metrics.gauge('parley_requests_working', 'Requests that are worked on', () => waitingRoom.working);
  metrics.gauge('parley_requests_waiting', 'Requests that wait for a place', () => waitingRoom.waiting);
  metrics.counter('parley_requests_shed_total', 'Requests refused with 503 because too many waited', () => waitingRoom.shed);
  metrics.gauge('parley_log_writes_waiting', 'Writes to the log that wait for the statement under way', () => log.waitingWrites);
  metrics.gauge('parley_deliveries_running', 'Webhook and gateway deliveries under way', () => courier.running);
  metrics.counter('parley_deliveries_delivered_total', 'Attempts that the receiver took', () => courier.delivered);
  metrics.counter('parley_deliveries_failed_total', 'Attempts that failed', () => courier.failed);
  metrics.gauge('parley_database_connections', 'Open connections to the database', () => database.pool().open);
  metrics.gauge('parley_database_connections_idle', 'Those of them that do nothing', () => database.pool().idle);
  metrics.gauge('parley_database_waiting', 'Statements that wait for a connection', () => database.pool().waiting);
}
