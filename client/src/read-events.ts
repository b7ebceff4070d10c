import { ConnectionError } from './errors.ts';

/** One Server-Sent Event, with its JSON still as text. */
export interface Frame {
  event: string;
  data: string;
}

/** The server writes a comment every 15 s; three missed ones mean that nobody is there. */
const silenceMs = 45_000;

/** Reads frames until the body ends. Throws `ConnectionError` on silence; leaving the loop closes the connection. */
export async function* readFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let event = '';
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await inTime(reader.read());
      if (done) return;
      text += decoder.decode(value, { stream: true });
      // A carriage return at the very end may be half of a line break.
      const lines = text.split(/\r\n|\n|\r(?!$)/);
      text = lines.pop() ?? '';
      for (const line of lines) {
        if (line === '') {
          if (data.length > 0) yield { event, data: data.join('\n') };
          event = '';
          data = [];
        } else if (line.startsWith('data:')) data.push(fieldValue(line));
        else if (line.startsWith('event:')) event = fieldValue(line);
      }
    }
  } finally {
    // Not awaited: on a dead connection it may take as long as the connection does.
    reader.cancel().catch(() => {});
  }
}

function fieldValue(line: string): string {
  return line.slice(line.indexOf(':') + 1).replace(/^ /, '');
}

async function inTime<Value>(waiting: Promise<Value>): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new ConnectionError('The stream went silent')), silenceMs);
  });
  return Promise.race([waiting, silence]).finally(() => clearTimeout(timer));
}
