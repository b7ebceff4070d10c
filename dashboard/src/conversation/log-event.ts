/** An entry of a session's log as the managed-agents stream sends it; what else it holds depends on its type. */
export interface LogEvent {
  seq: number;
  type: string;
  created_at: string;
  [field: string]: unknown;
}

/** The next words of a message that is being written. */
export interface PreviewPiece {
  type: 'agent.message_delta';
  message_id: string;
  text: string;
}

/** A frame of the stream: an entry, or a preview of text that is not stored yet. */
export function parseFrame(data: string): LogEvent | PreviewPiece | undefined {
  const value: unknown = JSON.parse(data);
  if (typeof value !== 'object' || value === null || !('type' in value)) return undefined;
  if (value.type === 'agent.message_delta') return value as PreviewPiece;
  return 'seq' in value && typeof value.seq === 'number' ? (value as LogEvent) : undefined;
}

export function textOf(event: LogEvent, field: string): string {
  const value = event[field];
  return typeof value === 'string' ? value : '';
}

export function numberOf(value: unknown, field: string): number {
  if (typeof value !== 'object' || value === null || !(field in value)) return 0;
  const found: unknown = Reflect.get(value, field);
  return typeof found === 'number' ? found : 0;
}

export function listOf(event: LogEvent, field: string): string[] {
  const value = event[field];
  return Array.isArray(value) ? value.filter((entry) => typeof entry === 'string') : [];
}
