import type { ApprovalRequested, TurnEnded } from './events.ts';

/** The part of an approval request that a person is shown: kept in the session's row, and the same on every surface. */
export interface PendingInput {
  request_id: string;
  kind: string;
  tool: string;
  message: string;
  options: string[];
}

export function pendingInputOf({ requestId, kind, tool, message, options }: ApprovalRequested): PendingInput {
  return { request_id: requestId, kind, tool, message, options };
}

/** What the end of a turn says about a denial. Without a `request_id` nobody was asked: the release denied the call. */
export function denialOf({ denied, deniedRequestId }: TurnEnded): { denied?: true; request_id?: string } {
  if (deniedRequestId !== undefined) return { denied: true, request_id: deniedRequestId };
  return denied ? { denied } : {};
}
