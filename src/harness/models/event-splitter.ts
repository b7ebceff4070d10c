import { StringDecoder } from 'node:string_decoder';
import { createParser } from 'eventsource-parser';

const maxEventCharacters = 8 * 1024 * 1024;

/** Cuts a server-sent stream into the `data` of its events. Bytes may be split anywhere, inside a character too. */
export function createEventSplitter(): { push(bytes: Uint8Array): string[]; end(): string[] } {
  const decoder = new StringDecoder('utf8');
  let events: string[] = [];
  let isTooLong = false;
  const parser = createParser({
    maxBufferSize: maxEventCharacters,
    onEvent: (event) => events.push(event.data),
    onError: (error) => {
      isTooLong ||= error.type === 'max-buffer-size-exceeded';
    },
  });

  function feed(text: string): string[] {
    events = [];
    parser.feed(text);
    if (isTooLong) throw new SyntaxError('An event of the stream is too long');
    return events;
  }

  return {
    push: (bytes) => feed(decoder.write(bytes)),
    // Some servers close the connection without the empty line that ends the last event.
    end: () => feed(`${decoder.end()}\n\n`),
  };
}
