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

/** Alone on its data, nobody else is there to be told. */
const silentBus: Bus = { announcesWrites: false, send: async () => {}, receive: async () => {}, close: async () => {} };

export async function openBus(database: Database, redisUrl: string | undefined): Promise<Bus> {
  if (database.engine === 'pglite') return silentBus;
  return redisUrl === undefined ? postgresBus(database) : redisBus(database, redisUrl);
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

/** Redis carries what is frequent; changes of accounts still come from the database, together with their commit. */
async function redisBus(database: Database, url: string): Promise<Bus> {
  const { createClient } = await import('redis');
  const channel = 'parley';
  const publisher = createClient({ url });
  const subscriber = publisher.duplicate();
  for (const client of [publisher, subscriber]) client.on('error', () => {});
  await Promise.all([publisher.connect(), subscriber.connect()]);
  return {
    announcesWrites: false,
    send: (payload) =>
      publisher.publish(channel, payload).then(
        () => {},
        () => {},
      ),
    async receive(listener) {
      await database.listen(listener);
      await subscriber.subscribe(channel, listener);
      // It subscribes again by itself after a lost connection; what was said meanwhile has to be looked for.
      subscriber.on('ready', () => listener('* reconnected'));
    },
    async close() {
      await Promise.allSettled([publisher.close(), subscriber.close()]);
    },
  };
}
