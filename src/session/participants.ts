import type { Participant } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';

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
