import type { MessageDelta } from '../../../client/src/index.ts';
import type { LogEvent } from './log-event.ts';

/** The message that is being written, as far as it came. */
export interface Preview {
  messageId: string;
  text: string;
}

export const noPreview: Preview = { messageId: '', text: '' };

/**
 * What is shown of it after this frame. A message under another id is written in the place of one that broke off; and
 * when a message, a call or an end is in the log, nothing before it is still being written.
 */
export function previewAfter(preview: Preview, frame: LogEvent | MessageDelta): Preview {
  if ('seq' in frame) return isPast(frame.type) ? noPreview : preview;
  const before = preview.messageId === frame.message_id ? preview.text : '';
  return { messageId: frame.message_id, text: before + frame.text };
}

function isPast(type: string): boolean {
  return type === 'agent.message' || type === 'agent.tool_use' || type.startsWith('session.');
}
