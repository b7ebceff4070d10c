import { ServiceError } from '../errors.ts';

/** As it is kept in the session's row. */
export interface Participant {
  name: string;
  type: 'human' | 'ai';
  /** Where it is reached, when that is another gateway, and the session that it talks from there. */
  gateway_url?: string;
  gateway_session_id?: string;
}

/** Limits how large a session's row can grow. The SQL function `admit_turn` has the same limit. */
const maxParticipants = 100;

/** Called before anything is written for a sender. */
export function assertRoomFor(known: readonly Participant[], senderId: string): void {
  const isNew = known.every(({ name }) => name !== senderId);
  if (isNew && known.length >= maxParticipants) throw participantsFull();
}

export function participantsFull(): ServiceError {
  return new ServiceError('conflict', `A session has at most ${maxParticipants} participants`);
}
