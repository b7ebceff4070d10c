import type { Directory } from '../accounts/directory.ts';
import type { Database } from '../database/database.ts';
import type { Feed } from '../session/feed.ts';
import type { Runner } from './runner.ts';

/**
 * What other processes say: `<process> sessions <id>:<last seq> …` and `<process> changed <org id>`. A wake-up carries no
 * data, only "look again", so that one lost while a connection was down costs nothing but the look after it.
 */
export async function routeWakeUps(database: Database, processId: string, feed: Feed, runner: Runner, directory: Directory): Promise<void> {
  if (database.engine === 'pglite') return;
  await database.listen((payload) => {
    const [sender, kind, ...rest] = payload.split(' ');
    if (sender === processId) return;
    if (kind === 'sessions') for (const entry of rest) void wakeSession(entry);
    else if (kind === 'changed' && rest[0] !== undefined) directory.invalidate(rest[0]);
    else if (kind === 'reconnected') {
      directory.invalidate('*');
      feed.lookAgainEverywhere();
    }
  });

  async function wakeSession(entry: string): Promise<void> {
    const [sessionId, lastSeq] = entry.split(':');
    if (sessionId === undefined) return;
    feed.lookAgain(sessionId, Number(lastSeq));
    for (const [turnId, turn] of runner.running) if (turn.sessionId === sessionId) await interruptIfAsked(turnId);
  }

  async function interruptIfAsked(turnId: string): Promise<void> {
    const row = await database.db.selectFrom('turns').select('interrupted').where('id', '=', turnId).executeTakeFirst();
    if (row?.interrupted) runner.interrupt(turnId);
  }
}
