import { limitBody } from '../limit-body.ts';

/** Of one message: enough for 256 tools with 75 values each. */
export const maxValues = 20_000;
/** Requests and notifications that a server may send before it answers: one every second, and some to spare. */
export const maxUnasked = 100;
/** How often a server may break off the stream of an answer for the client to ask for the rest: once a second, and some to spare. */
export const maxResumptions = 100;
const maxBytes = 8 * 1024 * 1024;
const maxLines = 50_000;
const maxMessages = 100;

/**
 * Limits an answer so that it can neither fill the memory nor block the process. The number of messages is limited too, because
 * the client validates each: 8 MiB of small ones are 250,000, which takes nine seconds. `received` adds up the parts of one answer.
 */
export function limitAnswer(response: Response, received: { bytes: number; lines: number }): Response {
  const limited = limitBody(response, { maxBytes, received });
  const isStream = /^\s*text\/event-stream/i.test(response.headers.get('content-type') ?? '');
  return isStream ? limitLines(limited, received) : limitMessages(limited);
}

function limitLines(response: Response, received: { lines: number }): Response {
  const limited = response.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        for (const byte of chunk) if (byte === lineFeed || byte === carriageReturn) received.lines += 1;
        if (received.lines > maxLines) throw new Error(`The server sent more than ${maxLines} lines`);
        controller.enqueue(chunk);
      },
    }),
  );
  return new Response(limited, { status: response.status, headers: response.headers });
}

function limitMessages(response: Response): Response {
  const readJson = response.json.bind(response);
  return Object.assign(response, {
    async json() {
      const messages: unknown = await readJson();
      if (Array.isArray(messages) && messages.length > maxMessages)
        throw new Error(`The server sent more than ${maxMessages} messages in one answer`);
      return messages;
    },
  });
}

/** The client validates each value of a message, and reports each that is wrong: a long list within the limit of bytes would take seconds. */
export function hasTooManyValues(message: unknown): boolean {
  const open = [message];
  let values = 0;
  for (let next = open.pop(); next !== undefined && values <= maxValues; next = open.pop()) {
    if (typeof next !== 'object' || next === null) continue;
    for (const [key, value] of Object.entries(next)) {
      // The client does not validate this field.
      if (key === 'structuredContent') continue;
      values += 1;
      open.push(value);
    }
  }
  return values > maxValues;
}

const lineFeed = 10;
const carriageReturn = 13;
