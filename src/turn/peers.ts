import type { Directory } from '../accounts/directory.ts';
import type { Bus } from '../database/bus.ts';
import type { Db } from '../database/database.ts';
import type { Feed } from '../session/feed.ts';
import { LiveRelay, parseLive } from './live-relay.ts';
import type { Runner } from './runner.ts';
import type { Settings } from './settings.ts';

const watchEveryMs = 5_000;
const aliveEveryMs = 1_000;
const aliveLastsMs = 3_500;

/**
 * The other processes of the installation. Notices are `<process> <kind> <rest>`: `sessions <id>:<last seq> …` (look
 * again), `stopped <session>`, `dropped <session> …` and `changed <org id>` (forget what you hold of it), `deliveries`
 * (something may be due to go out), `alive` (there is another process), `join <session>` (someone here begins to watch it
 * live), `watch <session> …` (and goes on to) and `live <json>` (text for whoever watches). The bus says
 * `reconnected` itself, where some may have been lost: then this process looks again at everything. What it has to tell the
 * others it hears from its own parts, whose callbacks it sets.
 */
export async function joinPeers(
  bus: Bus,
  processId: string,
  parts: {
    db: Db;
    feed: Feed;
    log: { onWritten: (sessionIds: Set<string>) => void };
    runner: Runner;
    turns: { onStopped: (sessionId: string) => void };
    directory: Directory;
    settings: Settings;
    courier: { wake(): void };
    rateLimit: { shareWith(processes: number): void };
  },
): Promise<{ close(): void }> {
  const { db, feed, log, runner, turns, directory, settings, courier, rateLimit } = parts;
  const relay = new LiveRelay(
    bus,
    processId,
    (sessionId) => feed.draftsOf(sessionId),
    (sessionId) => runner.seqOf(sessionId),
  );
  /** Other processes, and until when they count as alive. */
  const others = new Map<string, number>();
  /** Sessions that were dropped here since the last beat: under load there are many, and hardly one is watched elsewhere. */
  const dropped = new Set<string>();

  feed.onWatched = (sessionId) => {
    bus.send(`${processId} join ${sessionId}`);
  };
  feed.onDropped = (sessionId) => {
    forget(sessionId);
    dropped.add(sessionId);
  };
  runner.onLive = (sessionId, fragment) => relay.show(sessionId, fragment);
  runner.isWatchedElsewhere = (sessionId) => relay.isWatched(sessionId);
  runner.onStoring = (sessionId) => relay.flush(sessionId);
  turns.onStopped = (sessionId) => {
    bus.send(`${processId} stopped ${sessionId}`);
  };
  if (!bus.announcesWrites) log.onWritten = announce;

  const refresh = setInterval(() => {
    // Sessions whose turn runs here too: their next turn may run in another process, which must know of the watchers by then.
    for (const notice of packed([...feed.liveSessions()])) bus.send(`${processId} watch ${notice}`);
    relay.forgetWatchers();
  }, watchEveryMs).unref();

  const presence = setInterval(() => {
    bus.send(`${processId} alive`);
    announce(dropped);
    for (const notice of packed([...dropped])) bus.send(`${processId} dropped ${notice}`);
    dropped.clear();
    const now = performance.now();
    for (const [other, until] of others) if (until < now) others.delete(other);
    rateLimit.shareWith(others.size + 1);
  }, aliveEveryMs).unref();

  await bus.receive((payload) => {
    const [sender, kind, ...rest] = payload.split(' ');
    // A process acts on its own notices of changes too: if the answer to its write was lost, it does not know that it made one.
    const isOwn = sender === processId || sender?.startsWith(`${processId}.`);
    if (isOwn && kind !== 'changed') return;
    switch (kind) {
      case 'sessions':
        for (const entry of rest) wake(entry);
        return;
      case 'alive':
        others.set(sender ?? '', performance.now() + aliveLastsMs);
        rateLimit.shareWith(others.size + 1);
        return;
      case 'stopped':
        forgetStopped(rest[0] ?? '');
        return;
      case 'dropped':
        for (const sessionId of rest) forget(sessionId);
        return;
      case 'changed':
        directory.invalidate(rest[0] ?? '*');
        return;
      case 'deliveries':
        courier.wake();
        return;
      case 'join':
        for (const sessionId of rest) join(sessionId);
        return;
      case 'watch':
        for (const sessionId of rest) relay.watch(sessionId);
        return;
      case 'live':
        receiveLive(payload.slice(payload.indexOf('{')));
        return;
      case 'reconnected':
        directory.invalidate('*');
        feed.lookAgainEverywhere();
        courier.wake();
    }
  });

  function wake(entry: string): void {
    const [sessionId = '', lastSeq] = entry.split(':');
    feed.lookAgain(sessionId, lastSeq === undefined ? undefined : Number(lastSeq));
    const turnId = runner.turnOf(sessionId);
    if (turnId === undefined) return;
    db.selectFrom('turns')
      .select('interrupted')
      .where('id', '=', turnId)
      .executeTakeFirst()
      .then(
        (row) => row?.interrupted && runner.interrupt(turnId),
        // Not lost: the turn learns of the interrupt at its next commit point.
        () => {},
      );
  }

  /** Its id may be given to another session, of somebody else. */
  function forget(sessionId: string): void {
    settings.forget(sessionId);
    runner.forget(sessionId);
  }

  /** A late notice is not to close what a session holds that was resumed meanwhile. What stays open is closed when it is idle. */
  function forgetStopped(sessionId: string): void {
    db.selectFrom('sessions')
      .select('status')
      .where('id', '=', sessionId)
      .executeTakeFirst()
      .then(
        (row) => row?.status !== 'active' && settings.forget(sessionId),
        () => {},
      );
  }

  function join(sessionId: string): void {
    if (runner.turnOf(sessionId) === undefined) relay.watch(sessionId);
    else relay.join(sessionId);
  }

  function receiveLive(text: string): void {
    const { session, after = 0, fragments } = parseLive(text);
    feed.show(session, fragments, after);
  }

  function announce(sessionIds: Iterable<string>): void {
    for (const notice of packed([...sessionIds])) bus.send(`${processId} sessions ${notice}`);
  }

  return {
    close() {
      clearInterval(refresh);
      clearInterval(presence);
    },
  };
}

/** Ids are at most 128 characters: forty of them fit in a notice. */
function packed(ids: string[]): string[] {
  const notices: string[] = [];
  for (let index = 0; index < ids.length; index += 40) notices.push(ids.slice(index, index + 40).join(' '));
  return notices;
}
