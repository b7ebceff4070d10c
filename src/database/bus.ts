import { errorMessage } from '../errors.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Database } from './database.ts';

/**
 * How the processes of one installation reach each other: short notices to all of them, each delivered at most once. A notice
 * only says where to look in the database, or carries text that will be stored anyway, so that losing one does no harm.
 */
export interface Bus {
  /** Whether the database itself announces what a batch wrote, so that the writer need not. */
  readonly announcesWrites: boolean;
  /** Resolves when it is on its way. Never rejects: without the notice, the others find out when they next poll. */
  send(payload: string): Promise<void>;
  receive(listener: (payload: string) => void): Promise<void>;
  /** Only with Redis: whether this process can speak and listen there. */
  isConnected?(): boolean;
  close(): Promise<void>;
}

/** What a receiver gets, from nobody in particular, when notices may have been lost. */
export const reconnected = '* reconnected';

/** PostgreSQL refuses longer notices. */
export const maxNoticeBytes = 7_500;

const redisTimeoutMs = 5_000;
/** Redis answers within a millisecond. After this long without an answer, notices go through PostgreSQL, see `isSilent`. */
const maxSilenceMs = 1_000;
/**
 * A process that cannot listen at Redis says this through the database every second. Everyone who heard it lately sends their
 * notices through the database too, because that process would not get them from Redis.
 */
const deaf = '* deaf';
const deafEveryMs = 1_000;
const deafLastsMs = 3_500;

/** On the embedded database there is only one process. */
const silentBus: Bus = { announcesWrites: false, send: async () => {}, receive: async () => {}, close: async () => {} };

export async function openBus(database: Database, redisUrl: string | undefined, logger: Logger): Promise<Bus> {
  if (database.engine === 'pglite') return silentBus;
  return redisUrl === undefined ? postgresBus(database) : redisBus(database, redisUrl, logger);
}

function postgresBus(database: Database): Bus {
  // One after another: over several connections at once, notices could arrive out of order.
  let last: Promise<void> = Promise.resolve();
  return {
    announcesWrites: true,
    send(payload) {
      last = last.then(() => database.notify(payload)).catch(() => {});
      return last;
    },
    receive: (listener) => database.listen(listener),
    close: async () => {},
  };
}

/**
 * Redis carries the frequent notices; notices of changed accounts still come from PostgreSQL, with their commit. All processes
 * listen to both, so that PostgreSQL can stand in while Redis is not reachable.
 */
async function redisBus(database: Database, url: string, logger: Logger): Promise<Bus> {
  const { createClient } = await import('redis');
  const channel = channelOf(url);
  // Pings detect a Redis that hangs.
  const options = {
    url,
    pingInterval: 2_000,
    socket: { connectTimeout: redisTimeoutMs, socketTimeout: redisTimeoutMs, reconnectStrategy },
  };
  // No queue while disconnected: a notice that cannot be sent at once goes through PostgreSQL.
  const publisher = createClient({ ...options, disableOfflineQueue: true, commandsQueueMaxLength: 10_000 });
  const subscriber = createClient(options);
  const failure = new Promise<never>((_resolve, reject) => {
    for (const client of [publisher, subscriber]) client.on('error', reject);
  });
  failure.catch(() => {});
  let receiver: (payload: string) => void = () => {};
  const open = async () => {
    await Promise.all([publisher.connect(), subscriber.connect()]);
    // A user of Redis who may not publish or subscribe here fails the start. An empty notice is ignored.
    await Promise.all([publisher.ping(), publisher.publish(channel, ''), subscriber.subscribe(channel, (payload) => receiver(payload))]);
  };
  try {
    await Promise.race([open(), failure]);
  } catch (error) {
    for (const client of [publisher, subscriber]) client.destroy();
    throw new Error(`REDIS_URL: ${errorMessage(error) || 'Redis is not reachable'}`, { cause: error });
  }
  publisher.on('error', (error) => logger.warn({ err: error }, 'Redis is not reachable: notices go through PostgreSQL'));
  publisher.on('ready', () => logger.warn('Redis is reachable again'));
  const fallback = postgresBus(database);
  let unanswered = 0;
  let answeredAt = 0;
  let someoneDeafUntil = 0;
  let beat: NodeJS.Timeout | undefined;
  const noteAnswer = () => {
    unanswered -= 1;
    answeredAt = performance.now();
  };
  // The socket's own timeout starts again with every write, and we write every second: a Redis that hangs would never reach it.
  // So nothing more is written to a connection that owes an answer for too long.
  const isSilent = () => unanswered > 0 && performance.now() - answeredAt > maxSilenceMs;
  return {
    announcesWrites: false,
    // It does not wait for Redis: one connection keeps the notices in order.
    async send(payload) {
      if (!publisher.isReady || isSilent() || performance.now() < someoneDeafUntil) return fallback.send(payload);
      if (unanswered === 0) answeredAt = performance.now();
      unanswered += 1;
      publisher
        .publish(channel, payload)
        .finally(noteAnswer)
        .catch(() => fallback.send(payload));
    },
    async receive(listener) {
      await database.listen((payload) => {
        if (payload === deaf) someoneDeafUntil = performance.now() + deafLastsMs;
        else listener(payload);
      });
      receiver = listener;
      // After a lost connection the client subscribes again by itself, but notices were missed: everyone has to look.
      subscriber.on('ready', () => listener(reconnected));
      let beats = 0;
      beat = setInterval(() => {
        beats = subscriber.isReady ? 0 : beats + 1;
        if (beats > 0) fallback.send(deaf);
        // By now the others have heard it. Notices that they sent through Redis before were missed: everything has to be looked at.
        if (beats === 2) listener(reconnected);
      }, deafEveryMs).unref();
    },
    isConnected: () => publisher.isReady && subscriber.isReady && !isSilent(),
    async close() {
      clearInterval(beat);
      for (const client of [publisher, subscriber]) client.destroy();
    },
  };
}

/** A channel reaches everyone on a Redis, whichever database number they chose: the number keeps installations apart that share one. */
function channelOf(url: string): string {
  const number = Number(new URL(url).pathname.slice(1));
  return number === 0 ? 'parley' : `parley:${number}`;
}

/** The delay before each attempt to reconnect, in milliseconds: it doubles up to half a second. */
const reconnectStrategy = (retries: number) => Math.min(500, 25 * 2 ** Math.min(retries, 10));
