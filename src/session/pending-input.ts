import type { PendingInput } from '../database/schema.ts';
import type { ApprovalRequested } from './events.ts';

/** What a person is shown of an approval: kept at the head of its session, and the same on every wire. */
export function pendingInputOf({ requestId, kind, tool, message, options }: ApprovalRequested): PendingInput {
  return { request_id: requestId, kind, tool, message, options };
}
