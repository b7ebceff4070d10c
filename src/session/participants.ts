import type { Participant } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';

/** Enough for any conversation, and a bound on what a session's row can grow to. `admit_turn` counts them as well. */
const maxParticipants = 100;

/** Asked before anything is written for a sender. */
export function assertRoomFor(known: readonly Participant[], senderId: string): void {
  const isNew = known.every(({ name }) => name !== senderId);
  if (isNew && known.length >= maxParticipants) throw participantsFull();
}

export function participantsFull(): ServiceError {
  return new ServiceError('conflict', `A session has at most ${maxParticipants} participants`);
}
