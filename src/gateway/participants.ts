import { sql } from 'kysely';
import type { Directory } from '../accounts/directory.ts';
import type { Db } from '../database/database.ts';
import type { Guard } from '../destination/guard.ts';
import { orNotFound, ServiceError } from '../errors.ts';
import type { Participant } from '../session/participants.ts';
import { findSession, type Session } from '../session/sessions.ts';
import { type GatewayEvent, senderGateway } from './event.ts';
import { sessionTarget } from './seen.ts';

const maxUrlLength = 2_048;

/** Lets the sender of an event take part in a session, reached where the event says. `theirSession` is as in `senderOf`. */
export async function joinSender(
  db: Db,
  sessionId: string,
  event: GatewayEvent,
  ownUrl: string | undefined,
  theirSession?: string,
): Promise<void> {
  const sender = senderOf(event, ownUrl, theirSession);
  if (event.sender_gateway_url !== undefined && sender.gateway_url === undefined) await leaveGateway(db, sessionId, sender.name);
  await joinSession(db, sessionId, sender);
}

/** The sender of an event as a participant. `theirSession` is the session at the sender's gateway to which replies go. */
function senderOf(event: GatewayEvent, ownUrl: string | undefined, theirSession?: string): Participant {
  const { sender_id: name, sender_type: type } = event;
  const elsewhere = senderGateway(event, ownUrl);
  if (elsewhere === undefined) return { name, type };
  return { name, type, gateway_url: elsewhere, ...(theirSession === undefined ? {} : { gateway_session_id: theirSession }) };
}

/** Refuses a sender whose gateway could not be sent the replies. */
export async function checkSender(event: GatewayEvent, ownUrl: string | undefined, destination: Guard): Promise<void> {
  const elsewhere = senderGateway(event, ownUrl);
  if (elsewhere !== undefined) await checkGateway(elsewhere, 'sender_gateway_url', destination);
}

/** Refuses a gateway that we could not send to. The length is limited because the URL is stored with each participant and delivery. */
export async function checkGateway(url: string, field: string, destination: Guard): Promise<void> {
  if (url.length > maxUrlLength) throw new ServiceError('invalid', `${field}: at most ${maxUrlLength} characters once encoded`);
  await destination.check(url);
}

/** The participant says that it is reached here. An event that does not say where its sender is reached leaves that as it is. */
async function leaveGateway(db: Db, sessionId: string, name: string): Promise<void> {
  await sql`update sessions set participants = (
      select json_agg(case when p ->> 'name' = ${name} then p - 'gateway_url' - 'gateway_session_id' else p end order by place)
      from jsonb_array_elements(participants::jsonb) with ordinality as entry (p, place))
    where id = ${sessionId} and exists (
      select 1 from jsonb_array_elements(participants::jsonb) p where p ->> 'name' = ${name} and p ->> 'gateway_url' is not null)`.execute(
    db,
  );
}

export async function joinSession(db: Db, sessionId: string, participant: Participant): Promise<void> {
  await sql`select join_session(${sessionId}, ${JSON.stringify(participant)}::jsonb)`.execute(db);
}

/** Whether the id is the slug of an agent of the org, or the name of a participant of one of its sessions. */
export async function isKnownParticipant(db: Db, directory: Directory, orgId: number, participantId: string): Promise<boolean> {
  if ((await directory.agentBySlug(orgId, participantId)) !== undefined) return true;
  const { rows } = await sql`${joinedSessions(orgId, participantId)} limit 1`.execute(db);
  return rows.length > 0;
}

/** The stored sessions that the participant joined, newest first. */
function joinedSessions(orgId: number, participantId: string) {
  return sql`select p.session_id as id, p.created_at, s.status from session_participants p
    join sessions s on s.id = p.session_id and s.org_id = p.org_id and s.stored join agents a on a.id = s.agent_id and a.deleted_at is null
    where p.org_id = ${orgId} and p.name = ${participantId} order by p.created_at desc, p.session_id desc`;
}

/** How many sessions of a participant are searched for one that is not stopped: all of an agent's may be, and there may be a million. */
const searched = 100;

/**
 * The newest stored session that the participant joined or, for an agent, that it answers; a stopped one only if the last hundred are
 * all stopped. An event that was delivered to the participant before goes to the same session again, even if there is a newer one.
 */
export async function newestSessionWith(
  db: Db,
  directory: Pick<Directory, 'agentBySlug'>,
  orgId: number,
  participantId: string,
  eventId: string,
): Promise<string | undefined> {
  const agent = await directory.agentBySlug(orgId, participantId);
  const newest = async (status: 'active' | 'stopped') => {
    const { rows } = await sql<{ id: string }>`
      select id from (
        (select id, created_at from (${joinedSessions(orgId, participantId)} limit ${searched}) joined where status = ${status}
         order by created_at desc, id desc limit 1)
        union all
        (select id, created_at from (
           select id, created_at, updated_at, status from sessions where org_id = ${orgId} and agent_id = ${agent?.id ?? 0} and stored
           order by updated_at desc, id desc limit ${searched}) answered
         where status = ${status} order by updated_at desc, id desc limit 1)
        union all
        (select s.id, 'infinity' from gateway_events g join sessions s on s.id = g.session_id and g.target = ${sessionTarget('')} || s.id
         where g.org_id = ${orgId} and g.event_id = ${eventId}
           and (s.agent_id = ${agent?.id ?? 0} or exists (select 1 from session_participants where session_id = s.id and name = ${participantId})))
      ) found order by created_at desc, id desc limit 1`.execute(db);
    return rows[0]?.id;
  };
  return (await newest('active')) ?? newest('stopped');
}

/** The session of the org; throws the 404 if it does not exist or its agent was deleted. */
export async function sessionOf(db: Db, directory: Directory, orgId: number, sessionId: string): Promise<Session> {
  const session = orNotFound(await findSession(db, orgId, sessionId));
  orNotFound(await directory.agentById(orgId, session.agentId));
  return session;
}
