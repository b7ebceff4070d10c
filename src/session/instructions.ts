import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

/** Identifies instructions, so that the same ones are given to a session once and not with every message. */
export function hashOfInstructions(instructions: readonly string[]): string {
  return hash('sha256', JSON.stringify(instructions), 'base64url');
}

/** The `hashOfInstructions` of the session's newest message. */
export async function newestInstructions(db: Db, sessionId: string): Promise<string | undefined> {
  const { rows } = await sql<{ mark: string | null }>`
    select data ->> 'instructions' as mark from events
    where session_id = ${sessionId} and type = 'message-received' and data -> 'silent' is null
    order by seq desc limit 1`.execute(db);
  return rows[0]?.mark ?? undefined;
}
