import { ConnectionError } from './errors.ts';
import { readPieces } from './read-body.ts';

/**
 * The data of each Server-Sent Event, as unparsed JSON, until the body ends. Throws `ConnectionError` on silence; leaving
 * the loop closes the connection.
 */
export async function* readEvents({ body }: Response): AsyncGenerator<string> {
  if (body === null) throw new ConnectionError('The answer has no body');
  let text = '';
  let data: string[] = [];
  for await (const piece of readPieces(body)) {
    text += piece;
    // A carriage return at the very end may be the first half of a `\r\n` whose rest has not arrived.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    text = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield data.join('\n');
        data = [];
      } else if (line.startsWith('data:')) data.push(line.slice('data:'.length).replace(/^ /, ''));
    }
  }
}
