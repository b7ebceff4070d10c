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

interface PeerParts {
  db: Db;
  feed: Feed;
  log: { onWritten: (sessionIds: Set<string>) => void };
  runner: Runner;
  turns: { onStopped: (sessionId: string) => void };
  directory: Directory;
  settings: Settings;
  courier: { wake(): void };
  rateLimit: { shareWith(processes: number): void };
}

/** The other processes that are alive, and until when each counts as that. */
type Others = Map<string, number>;

/**
 * The other processes of the installation. Notices are `<process> <kind> <rest>`: `sessions <id>:<last seq> …` (look
 * again), `stopped <session>`, `dropped <session> …` and `changed <org id>` (forget what you hold of it), `deliveries`
 * (something may be due to go out), `alive` (there is another process), `join <session>` (someone here begins to watch it
 * live), `watch <session> …` (and goes on to) and `live <json>` (text for whoever watches). The bus says
 * `reconnected` itself, where some may have been lost: then this process looks again at everything.
 */
export async function joinPeers(bus: Bus, processId: string, parts: PeerParts): Promise<{ close(): void }> {
  const { feed, runner } = parts;
  const relay = new LiveRelay(
    bus,
    processId,
    (sessionId) => feed.draftsOf(sessionId),
    (sessionId) => runner.seqOf(sessionId),
  );
  const others: Others = new Map();
  const close = tellPeers(bus, processId, parts, relay, others);
  await bus.receive(hearPeers(processId, parts, relay, others));
  return { close };
}

/** What there is to tell it hears from the process's own parts, whose callbacks it sets, and tells some of it at intervals. Returns what ends those. */
function tellPeers(bus: Bus, processId: string, parts: PeerParts, relay: LiveRelay, others: Others): () => void {
  const { feed, log, runner, turns, rateLimit } = parts;
  /** Sessions that were dropped here since the last beat: under load there are many, and hardly one is watched elsewhere. */
  const dropped = new Set<string>();
  const tell = (kind: string, rest = '') => bus.send(`${processId} ${kind}${rest === '' ? '' : ` ${rest}`}`);
  const tellOfSessions = (kind: string, sessionIds: Iterable<string>) => {
    for (const notice of packed([...sessionIds])) tell(kind, notice);
  };

  feed.onWatched = (sessionId) => {
    tell('join', sessionId);
  };
  feed.onDropped = (sessionId) => {
    forget(parts, sessionId);
    dropped.add(sessionId);
  };
  runner.onLive = (sessionId, fragment) => relay.show(sessionId, fragment);
  runner.isWatchedElsewhere = (sessionId) => relay.isWatched(sessionId);
  runner.onStoring = (sessionId) => relay.flush(sessionId);
  turns.onStopped = (sessionId) => {
    tell('stopped', sessionId);
  };
  if (!bus.announcesWrites) log.onWritten = (sessionIds) => tellOfSessions('sessions', sessionIds);

  const refresh = setInterval(() => {
    // Sessions whose turn runs here too: their next turn may run in another process, which must know of the watchers by then.
    tellOfSessions('watch', feed.liveSessions());
    relay.forgetWatchers();
  }, watchEveryMs).unref();

  const presence = setInterval(() => {
    tell('alive');
    tellOfSessions('sessions', dropped);
    tellOfSessions('dropped', dropped);
    dropped.clear();
    const now = performance.now();
    for (const [other, until] of others) if (until < now) others.delete(other);
    rateLimit.shareWith(others.size + 1);
  }, aliveEveryMs).unref();

  return () => {
    clearInterval(refresh);
    clearInterval(presence);
  };
}

/** Acts on a notice of another process. */
function hearPeers(processId: string, parts: PeerParts, relay: LiveRelay, others: Others): (payload: string) => void {
  const { feed, runner, directory, courier, rateLimit } = parts;
  return (payload) => {
    const [sender, kind, ...rest] = payload.split(' ');
    // A process acts on its own notices of changes too: if the answer to its write was lost, it does not know that it made one.
    const isOwn = sender === processId || sender?.startsWith(`${processId}.`);
    if (isOwn && kind !== 'changed') return;
    switch (kind) {
      case 'sessions':
        for (const entry of rest) wake(parts, entry);
        return;
      case 'alive':
        others.set(sender ?? '', performance.now() + aliveLastsMs);
        rateLimit.shareWith(others.size + 1);
        return;
      case 'stopped':
        forgetStopped(parts, rest[0] ?? '');
        return;
      case 'dropped':
        for (const sessionId of rest) forget(parts, sessionId);
        return;
      case 'changed':
        directory.invalidate(rest[0] ?? '*');
        return;
      case 'deliveries':
        courier.wake();
        return;
      case 'join':
        for (const sessionId of rest) {
          if (runner.turnOf(sessionId) === undefined) relay.watch(sessionId);
          else relay.join(sessionId);
        }
        return;
      case 'watch':
        for (const sessionId of rest) relay.watch(sessionId);
        return;
      case 'live': {
        const { session, after = 0, fragments } = parseLive(payload.slice(payload.indexOf('{')));
        feed.show(session, fragments, after);
        return;
      }
      case 'reconnected':
        directory.invalidate('*');
        feed.lookAgainEverywhere();
        courier.wake();
    }
  };
}

function wake({ db, feed, runner }: PeerParts, entry: string): void {
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
function forget({ settings, runner }: PeerParts, sessionId: string): void {
  settings.forget(sessionId);
  runner.forget(sessionId);
}

/** A late notice is not to close what a session holds that was resumed meanwhile. What stays open is closed when it is idle. */
function forgetStopped({ db, settings }: PeerParts, sessionId: string): void {
  db.selectFrom('sessions')
    .select('status')
    .where('id', '=', sessionId)
    .executeTakeFirst()
    .then(
      (row) => row?.status !== 'active' && settings.forget(sessionId),
      () => {},
    );
}

/** Ids are at most 128 characters: forty of them fit in a notice. */
function packed(ids: string[]): string[] {
  const notices: string[] = [];
  for (let index = 0; index < ids.length; index += 40) notices.push(ids.slice(index, index + 40).join(' '));
  return notices;
}
