import assert from 'node:assert/strict';
import { newId } from '../../src/ids.ts';
import type { NewEvent, StoredEvent } from '../../src/session/events.ts';
import type { Feed } from '../../src/session/feed.ts';
import { numberEvents, type SessionLog } from '../../src/session/log.ts';
import type { Operation } from '../../src/session/operations.ts';

export const said = (text: string): NewEvent => ({ type: 'message-received', data: { messageId: newId('msg_'), text, silent: true } });

/** Appends events to a session's log and publishes them once they are durable, as the server does. */
export async function write(log: SessionLog, feed: Feed, session: string, events: NewEvent[]): Promise<StoredEvent[]> {
  const turn = newId('turn_');
  const { result, at } = await log.apply({ kind: 'note', org: 1, session, turn, events, messages: events.length });
  assert.equal(result.status, 'done');
  const stored = numberEvents(events, turn, result.seq ?? 0, at);
  feed.publish(session, stored);
  return stored;
}

/** The numbers from 1 to `count`. */
export const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

/** A message that starts a turn, and reserves nothing of a budget. */
export function admission(session: string, turn: string): Operation {
  return {
    kind: 'admit',
    org: 1,
    session,
    turn,
    input: { messageId: newId('msg_'), text: 'Hi' },
    endUserId: undefined,
    fingerprint: undefined,
    idempotencyKey: undefined,
    idempotencyFingerprint: undefined,
    waitsForApproval: false,
    reserveTokens: 0,
    reserveMicros: 0,
    reserveCreditMicros: 0,
  };
}
