import type { Directory } from '../accounts/directory.ts';
import type { Bus } from '../database/bus.ts';
import type { Db } from '../database/database.ts';
import type { Feed } from '../session/feed.ts';
import { isNameOf } from '../session/holder-name.ts';
import type { Logger } from '../telemetry/logger.ts';
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
  logger: Pick<Logger, 'warn'>;
}

/** The other processes by id, and until when each counts as alive. */
type Others = Map<string, number>;

/**
 * Exchanges notices with the other processes of the installation. A notice is `<process> <kind> <rest>`, and its kinds are:
 * - `sessions <id>:<last seq> …`: something was written to these sessions
 * - `stopped <session>`, `dropped <session> …`: forget what you hold in memory for it
 * - `changed <org id>`: forget what you cached of this organization
 * - `deliveries`: a webhook or gateway delivery may be due. Its sender is `-`, so that the process that sent it acts on it too
 * - `alive`: this process exists, and shares the rate limit
 * - `join <session>`: a client here begins to watch the session's live text; `watch <session> …`: and still does
 * - `live <json>`: live text for processes with watchers
 * - `reconnected`, from the bus itself: notices may have been lost, so everything is looked at again
 */
export async function joinPeers(bus: Bus, processId: string, parts: PeerParts): Promise<{ close(): void }> {
  const relay = new LiveRelay(bus, processId, parts.feed, parts.runner.states);
  const others: Others = new Map();
  const close = tellPeers(bus, processId, parts, relay, others);
  const hear = hearPeers(processId, parts, relay, others);
  await bus.receive((payload) => {
    try {
      hear(payload);
    } catch (error) {
      // Others may use the same channel of a shared Redis or database. An error thrown from here would end every process that hears it.
      parts.logger.warn({ err: error }, 'could not read a notice');
    }
  });
  return { close };
}

/**
 * Sends notices: at once by setting the callbacks of the feed, the turns and the log and the relay of the runner, and at intervals.
 * These are set here, after those parts were made, because the relay needs the feed and the runner, which would in turn need the relay;
 * and because none of these parts depends on other processes being there. Returns what ends the intervals.
 */
function tellPeers(bus: Bus, processId: string, parts: PeerParts, relay: LiveRelay, others: Others): () => void {
  const { feed, log, runner, turns, rateLimit } = parts;
  /** Sessions dropped here since the last `alive`. Under load there are many, and hardly any is watched elsewhere: they can wait for it. */
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
  runner.elsewhere = relay;
  turns.onStopped = (sessionId) => {
    tell('stopped', sessionId);
  };
  if (!bus.announcesWrites) log.onWritten = (sessionIds) => tellOfSessions('sessions', sessionIds);

  const refresh = setInterval(() => {
    // Even if the session's turn runs here: its next turn may run in another process, which must know of the watchers by then.
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

/** Returns what acts on a notice of another process. */
function hearPeers(processId: string, parts: PeerParts, relay: LiveRelay, others: Others): (payload: string) => void {
  const { feed, runner, directory, settings, courier, rateLimit } = parts;
  return (payload) => {
    const [sender, kind, ...rest] = payload.split(' ');
    // A process also acts on its own `changed` notices: if the answer to a write was lost, it does not know that it changed something.
    if (isNameOf(processId, sender) && kind !== 'changed') return;
    switch (kind) {
      case 'sessions':
        for (const entry of rest) lookAgain(parts, entry);
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
        directory.invalidate(Number(rest[0]));
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
        directory.invalidate('all');
        // Any session may have been dropped, and its id be used again.
        settings.forgetAll();
        runner.states.dropAll();
        feed.lookAgainEverywhere();
        courier.wake();
    }
  };
}

/** Another process wrote to a session: its watchers here look again, and its turn, if it runs here, may have been interrupted. */
function lookAgain({ db, feed, runner }: PeerParts, entry: string): void {
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
      // If this read fails, the turn learns of the interrupt at its next commit point.
      () => {},
    );
}

/** For a session that was dropped: its id can be used again, even by another organization. */
function forget({ settings, runner }: PeerParts, sessionId: string): void {
  settings.forget(sessionId);
  runner.states.drop(sessionId);
}

/** Unless the session was resumed since the notice was sent. If this read fails, its MCP connections are closed when they are idle. */
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
