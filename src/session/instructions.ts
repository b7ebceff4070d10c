import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

/** A hash that identifies instructions, so that a session is told the same ones once and not with every message. */
export function hashOfInstructions(instructions: readonly string[]): string {
  return hash('sha256', JSON.stringify(instructions), 'base64url');
}

/** The hash of the instructions that came with the session's newest message. */
export async function newestInstructions(db: Db, sessionId: string): Promise<string | undefined> {
  const { rows } = await sql<{ mark: string | null }>`
    select data ->> 'instructions' as mark from events
    where session_id = ${sessionId} and type = 'message-received' and data -> 'silent' is null
    order by seq desc limit 1`.execute(db);
  return rows[0]?.mark ?? undefined;
}
