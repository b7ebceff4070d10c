import type { SessionLog } from './log.ts';

export interface TranscriptMessage {
  role: 'user' | 'assistant';
  text: string;
}

/** What stands between the texts of two steps of a turn where they are shown as one: each is a message of its own. */
export const betweenSteps = '\n\n';

/** What a turn has said, and then `next`. */
export function continueText(said: string, next: string): string {
  return said === '' || next === '' ? said + next : said + betweenSteps + next;
}

/** What was said, without tools and reasoning, in pages. The texts of a turn are one message of the assistant. */
export async function* readTranscript(log: Pick<SessionLog, 'readAll'>, sessionId: string): AsyncGenerator<TranscriptMessage[]> {
  /** Not yielded yet: the last answer, which the next page may continue, and what follows it. */
  let held: TranscriptMessage[] = [];
  let answer: TranscriptMessage | undefined;
  for await (const events of log.readAll(sessionId)) {
    for (const event of events) {
      if (event.type === 'message-received') held.push({ role: 'user', text: event.data.text });
      if (event.type === 'turn-ended' || event.type === 'turn-failed') answer = undefined;
      if (event.type !== 'message-produced' || event.data.text === '') continue;
      if (answer === undefined) {
        answer = { role: 'assistant', text: '' };
        held.push(answer);
      }
      answer.text = continueText(answer.text, event.data.text);
    }
    const complete = answer === undefined ? held.length : held.indexOf(answer);
    yield held.slice(0, complete);
    held = held.slice(complete);
  }
  yield held;
}
