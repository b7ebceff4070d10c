import type { SessionLog } from './log.ts';

export interface TranscriptMessage {
  role: 'user' | 'assistant';
  text: string;
}

/** What was said, without tools and reasoning: a turn's texts are one message of the assistant. In pages, however long it is. */
export async function* readTranscript(log: Pick<SessionLog, 'readAll'>, sessionId: string): AsyncGenerator<TranscriptMessage[]> {
  /** From the answer on that may still go on. */
  let held: TranscriptMessage[] = [];
  let answer: { turnId: string; message: TranscriptMessage } | undefined;
  for await (const events of log.readAll(sessionId)) {
    for (const event of events) {
      if (event.type === 'message-received') held.push({ role: 'user', text: event.data.text });
      if ((event.type === 'turn-ended' || event.type === 'turn-failed') && answer?.turnId === event.turnId) answer = undefined;
      if (event.type !== 'message-produced' || event.data.text === '') continue;
      if (answer?.turnId !== event.turnId) {
        answer = { turnId: event.turnId, message: { role: 'assistant', text: '' } };
        held.push(answer.message);
      }
      answer.message.text += event.data.text;
    }
    const complete = answer === undefined ? held.length : held.indexOf(answer.message);
    yield held.slice(0, complete);
    held = held.slice(complete);
  }
  yield held;
}
