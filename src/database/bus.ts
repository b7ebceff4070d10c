import { errorMessage } from '../errors.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Database } from './database.ts';

/**
 * How processes of one installation reach each other: small notices, at most once, to everyone. What must not be lost is
 * in the database; a notice only says where to look, or shows text that will be stored anyway.
 */
export interface Bus {
  /** Whether the database itself announces what a batch wrote, so that the writer need not. */
  readonly announcesWrites: boolean;
  /** Resolves when it is on its way. Never rejects: a notice that cannot be sent is a look that comes later. */
  send(payload: string): Promise<void>;
  receive(listener: (payload: string) => void): Promise<void>;
  close(): Promise<void>;
}

/** Notices longer than this are not taken by PostgreSQL. */
export const maxNoticeBytes = 7_500;

const silenceMs = 5_000;
/** Redis answers within a millisecond. What owes an answer for this long is written nothing more, see below. */
const patienceMs = 1_000;

/** Alone on its data, nobody else is there to be told. */
const silentBus: Bus = { announcesWrites: false, send: async () => {}, receive: async () => {}, close: async () => {} };

export async function openBus(database: Database, redisUrl: string | undefined, logger: Logger): Promise<Bus> {
  if (database.engine === 'pglite') return silentBus;
  return redisUrl === undefined ? postgresBus(database) : redisBus(database, redisUrl, logger);
}

function postgresBus(database: Database): Bus {
  // One after another: sent at once over several connections, notices could arrive in another order.
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
 * Redis carries what is frequent; changes of accounts still come from the database, together with their commit. Everyone
 * listens there too, so that the database stands in while Redis is away.
 */
async function redisBus(database: Database, url: string, logger: Logger): Promise<Bus> {
  const { createClient } = await import('redis');
  const channel = channelOf(url);
  // Pinged now and then: a Redis that hangs is noticed like one that is gone.
  const options = { url, pingInterval: 2_000, socket: { connectTimeout: silenceMs, socketTimeout: silenceMs, reconnectStrategy } };
  // A notice is for now or never: what cannot be sent at once goes through the database.
  const publisher = createClient({ ...options, disableOfflineQueue: true, commandsQueueMaxLength: 10_000 });
  const subscriber = createClient(options);
  const failure = new Promise<never>((_resolve, reject) => {
    for (const client of [publisher, subscriber]) client.on('error', reject);
  });
  failure.catch(() => {});
  let receiver: (payload: string) => void = () => {};
  const open = async () => {
    await Promise.all([publisher.connect(), subscriber.connect()]);
    // What its user may not do is found out now. Nobody acts on an empty notice.
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
  let heardAt = 0;
  const hear = () => {
    unanswered -= 1;
    heardAt = performance.now();
  };
  // The time after which a silent connection is given up begins anew with all that is written, and something is every second.
  const isSilent = () => unanswered > 0 && performance.now() - heardAt > patienceMs;
  return {
    announcesWrites: false,
    // What follows goes over the same connection, behind it: nobody needs to wait.
    async send(payload) {
      if (!publisher.isReady || isSilent()) return fallback.send(payload);
      if (unanswered === 0) heardAt = performance.now();
      unanswered += 1;
      publisher
        .publish(channel, payload)
        .finally(hear)
        .catch(() => fallback.send(payload));
    },
    async receive(listener) {
      await database.listen(listener);
      receiver = listener;
      // It subscribes again by itself after a lost connection; what was said meanwhile has to be looked for.
      subscriber.on('ready', () => listener('* reconnected'));
    },
    async close() {
      for (const client of [publisher, subscriber]) client.destroy();
    },
  };
}

/** A channel reaches everyone on a Redis, whichever database they chose: its number keeps installations apart that share one. */
function channelOf(url: string): string {
  const number = Number(new URL(url).pathname.slice(1));
  return number === 0 ? 'parley' : `parley:${number}`;
}

/** Often at first, then twice a second for as long as it takes. */
const reconnectStrategy = (retries: number) => Math.min(500, 25 * 2 ** Math.min(retries, 10));
