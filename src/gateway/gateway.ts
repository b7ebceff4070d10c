import type { Agent } from '../accounts/agents.ts';
import type { Directory } from '../accounts/directory.ts';
import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Guard } from '../destination/guard.ts';
import { ServiceError } from '../errors.ts';
import { newId } from '../ids.ts';
import { dropSession } from '../session/drop-sessions.ts';
import type { SessionLog } from '../session/log.ts';
import { instanceIdOf } from '../session/metadata.ts';
import type { NewSessions } from '../session/new-sessions.ts';
import { assertRoomFor } from '../session/participants.ts';
import { findSession, type Session } from '../session/sessions.ts';
import type { Logger } from '../telemetry/logger.ts';
import { checkBudgetOfNew } from '../turn/budget.ts';
import { openSession } from '../turn/open-session.ts';
import type { Settings } from '../turn/settings.ts';
import type { Turns } from '../turn/turns.ts';
import { type Delivery, deliverEvent } from './deliver.ts';
import type { GatewayEvent } from './event.ts';
import { checkSender, joinSender, sessionOf } from './participants.ts';
import { type GatewayIdentity, markAdmitted } from './replies.ts';
import { ReplyWorker } from './reply-worker.ts';
import { finishEvent, forgetEvent, recordEvent, submitTarget, turnKeyOf } from './seen.ts';

export interface GatewayParts {
  database: Database;
  directory: Directory;
  newSessions: NewSessions;
  settings: Settings;
  log: SessionLog;
  turns: Turns;
  destination: Guard;
  clock: Clock;
  logger: Logger;
  identity: GatewayIdentity;
}

export interface Submission {
  event: GatewayEvent;
  /** Identifies a retry by a client library as the same request. */
  fingerprint: string;
  /** The agent of the session that is opened for an event that names none. */
  agent: () => Promise<Agent>;
}

/**
 * Passes events between human and AI participants. A submitted message runs a turn of its session's agent. A delivered one
 * only goes into the log: if it ran a turn too, two gateways could answer each other forever.
 */
export class Gateway {
  private readonly parts: GatewayParts;
  readonly replies: ReplyWorker;

  constructor(parts: GatewayParts) {
    this.parts = parts;
    this.replies = new ReplyWorker(parts);
  }

  /**
   * Takes an event for the session that it names, or for a new session of `agent`. Returns the id of the session, or undefined
   * if the event has already passed this gateway.
   */
  async submit(orgId: number, submission: Submission): Promise<string | undefined> {
    const { event } = submission;
    const { database, directory, identity, destination } = this.parts;
    const { db } = database;
    if (event.hops.includes(identity.name)) return undefined;
    await checkSender(event, identity.url, destination);
    if (event.session_id !== undefined) await sessionOf(db, directory, orgId, event.session_id);
    const seen = await recordEvent(db, orgId, event, submitTarget, event.session_id ?? newId('ses_'));
    const sessionId = seen.sessionId ?? '';
    if (seen.state === 'received') await this.takeIn(orgId, sessionId, submission, seen.isNew);
    return sessionId;
  }

  /** Brings an event to a participant, who is in a session here or at another gateway. */
  async deliver(orgId: number, delivery: Delivery): Promise<void> {
    const { identity, destination } = this.parts;
    if (delivery.event.hops.includes(identity.name)) return;
    await checkSender(delivery.event, identity.url, destination);
    await deliverEvent(this.parts, orgId, delivery);
  }

  /** Lets the sender join the session, which is opened if it does not exist, and starts a turn for the message if there is one. */
  private async takeIn(orgId: number, sessionId: string, submission: Submission, isFirstTry: boolean): Promise<void> {
    const { event, agent } = submission;
    const { db } = this.parts.database;
    let isOpened = false;
    try {
      let session = await findSession(db, orgId, sessionId);
      if (session === undefined) {
        session = await this.open(await agent(), event, sessionId);
        isOpened = true;
      }
      assertRoomFor(session.participants, event.sender_id);
      if (event.message === undefined) await this.join(orgId, sessionId, event);
      else await this.startTurn(orgId, sessionId, submission, event.message);
    } catch (error) {
      if (isFirstTry && error instanceof ServiceError) {
        // Refused: undo everything, so that the sender can try again. What a copy of the event did meanwhile stays.
        await forgetEvent(db, orgId, event.id, submitTarget);
        if (isOpened) await dropSession(db, orgId, sessionId, 0);
      }
      throw error;
    }
  }

  private async join(orgId: number, sessionId: string, event: GatewayEvent): Promise<void> {
    const { database, identity } = this.parts;
    await joinSender(database.db, sessionId, event, identity.url);
    await finishEvent(database.db, orgId, event.id, submitTarget);
  }

  private async startTurn(orgId: number, sessionId: string, { event, fingerprint }: Submission, text: string): Promise<void> {
    const { database, turns, clock, identity } = this.parts;
    const key = turnKeyOf(event.id);
    const turn = await turns.admit(orgId, sessionId, {
      message: { text, participantName: event.sender_id, participantType: event.sender_type },
      shows: 'nothing',
      waitsForApproval: true,
      fingerprint,
      idempotency: { key, fingerprint: key },
    });
    try {
      const admitted = { org_id: orgId, event_id: event.id, session_id: sessionId, turn_id: turn.turnId, event };
      await markAdmitted(database.db, admitted, identity, clock.now());
    } catch (error) {
      turn.subscription.close();
      throw error;
    }
    void this.replies.lookWhenEnded(turn);
  }

  private async open(agent: Agent, event: GatewayEvent, sessionId: string): Promise<Session> {
    const { metadata = {} } = event;
    const wanted = { surface: 'gateway' as const, sessionId, metadata, agentInstanceId: instanceIdOf(metadata), sameAgent: false };
    const open = () => openSession(this.parts, agent, wanted);
    if (event.message === undefined) return open();
    return this.parts.turns.withPlace(agent.orgId, async () => {
      await checkBudgetOfNew(this.parts, agent, wanted);
      return open();
    });
  }
}
