import { sql } from 'kysely';
import type { Directory } from '../accounts/directory.ts';
import type { Db } from '../database/database.ts';
import type { Participant } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';

/** Enough for any conversation, and a bound on what a session's row can grow to. */
const maxParticipants = 100;

export async function joinSession(db: Db, sessionId: string, known: readonly Participant[], participant: Participant): Promise<void> {
  const isNew = known.every(({ name }) => name !== participant.name);
  if (isNew && known.length >= maxParticipants) throw new ServiceError('conflict', `A session has at most ${maxParticipants} participants`);
  await sql`select join_session(${sessionId}, ${JSON.stringify(participant)}::jsonb)`.execute(db);
}

/** Known to the org's gateway: an agent of it by its slug, or a participant of one of its sessions. */
export async function isKnownParticipant(db: Db, directory: Directory, orgId: number, participantId: string): Promise<boolean> {
  if ((await directory.agentBySlug(orgId, participantId)) !== undefined) return true;
  return (await newestSessionWith(db, directory, orgId, participantId)) !== undefined;
}

/** The newest session that the participant is in; an agent is in those that it answers. */
export async function newestSessionWith(db: Db, directory: Directory, orgId: number, participantId: string): Promise<string | undefined> {
  const named = JSON.stringify([{ name: participantId }]);
  const agent = await directory.agentBySlug(orgId, participantId);
  const { rows } = await sql<{ id: string }>`
    select id from (
      (select id, created_at from sessions
       where json_array_length(participants) > 0 and participants::jsonb @> ${named}::jsonb and org_id = ${orgId})
      union all
      (select id, created_at from sessions where org_id = ${orgId} and agent_id = ${agent?.id ?? 0} order by updated_at desc, id desc limit 1)
    ) found order by created_at desc, id desc limit 1`.execute(db);
  return rows[0]?.id;
}
