import type { MessageDelta } from '../../../client/src/index.ts';
import type { LogEvent } from './log-event.ts';

/** The part of the agent's current message that has arrived. It is not in the log until it is complete. */
export interface Preview {
  messageId: string;
  text: string;
}

export const noPreview: Preview = { messageId: '', text: '' };

/**
 * The preview after this frame. Words of another message id replace the preview, because the earlier message was cut off.
 * An entry for the finished message, a tool call or a change of the session's state ends it.
 */
export function previewAfter(preview: Preview, frame: LogEvent | MessageDelta): Preview {
  if ('seq' in frame) return endsPreview(frame.type) ? noPreview : preview;
  const before = preview.messageId === frame.message_id ? preview.text : '';
  return { messageId: frame.message_id, text: before + frame.text };
}

function endsPreview(type: string): boolean {
  return type === 'agent.message' || type === 'agent.tool_use' || type.startsWith('session.');
}
