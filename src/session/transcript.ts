import type { SessionLog } from './log.ts';

export interface TranscriptMessage {
  role: 'user' | 'assistant';
  text: string;
}

/** What was said, without tools and reasoning: a turn's texts are one message of the assistant. */
export async function readTranscript(log: SessionLog, sessionId: string): Promise<TranscriptMessage[]> {
  const messages: TranscriptMessage[] = [];
  let answer: { turnId: string; message: TranscriptMessage } | undefined;
  for await (const events of log.readAll(sessionId)) {
    for (const event of events) {
      if (event.type === 'message-received') messages.push({ role: 'user', text: event.data.text });
      if (event.type !== 'message-produced' || event.data.text === '') continue;
      if (answer?.turnId !== event.turnId) {
        answer = { turnId: event.turnId, message: { role: 'assistant', text: '' } };
        messages.push(answer.message);
      }
      answer.message.text += event.data.text;
    }
  }
  return messages;
}
