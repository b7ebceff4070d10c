import type { ApprovalRequested } from './events.ts';

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
