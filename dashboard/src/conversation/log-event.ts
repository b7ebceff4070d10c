import type { LoggedEvent, MessageDelta } from '../../../client/src/index.ts';

export type LogEvent = LoggedEvent;

/** Parses one frame of the stream: an entry of the log, or the next words of a message. Undefined if it is neither. */
export function parseFrame(data: string): LoggedEvent | MessageDelta | undefined {
  const value: unknown = JSON.parse(data);
  if (typeof value !== 'object' || value === null || !('type' in value)) return undefined;
  if (value.type === 'agent.message_delta') return value as MessageDelta;
  return 'seq' in value && typeof value.seq === 'number' ? (value as LoggedEvent) : undefined;
}
