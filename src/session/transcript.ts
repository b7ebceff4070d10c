import type { SessionLog } from './log.ts';

export interface TranscriptMessage {
  role: 'user' | 'assistant';
  text: string;
}

/** What was said, without tools and reasoning: a turn's texts are one message of the assistant. */
export async function readTranscript(log: SessionLog, sessionId: string): Promise<TranscriptMessage[]> {
  const messages: TranscriptMessage[] = [];
  let assistantTurn: string | undefined;
  for await (const events of log.readAll(sessionId)) {
    for (const event of events) {
      if (event.type === 'message-received') {
        messages.push({ role: 'user', text: event.data.text });
        assistantTurn = undefined;
      } else if (event.type === 'message-produced' && event.data.text !== '') {
        const last = messages.at(-1);
        if (last?.role === 'assistant' && assistantTurn === event.turnId) last.text += event.data.text;
        else messages.push({ role: 'assistant', text: event.data.text });
        assistantTurn = event.turnId;
      }
    }
  }
  return messages;
}
