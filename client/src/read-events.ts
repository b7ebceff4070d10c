import { ConnectionError } from './errors.ts';
import { readPieces } from './read-body.ts';

/** One Server-Sent Event, with its JSON still as text. */
export interface Frame {
  event: string;
  data: string;
}

/** Reads frames until the body ends. Throws `ConnectionError` on silence; leaving the loop closes the connection. */
export async function* readFrames({ body }: Response): AsyncGenerator<Frame> {
  if (body === null) throw new ConnectionError('The answer has no body');
  let text = '';
  let event = '';
  let data: string[] = [];
  for await (const piece of readPieces(body)) {
    text += piece;
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
}

function fieldValue(line: string): string {
  return line.slice(line.indexOf(':') + 1).replace(/^ /, '');
}
