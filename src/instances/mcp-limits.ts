import { limitBody } from '../limit-body.ts';

/** More than 256 tools with 75 each. */
export const maxValues = 20_000;
/** Of a server's own messages before it answers: a sign of life every second, and more than any use is made of. */
export const maxUnasked = 100;
const maxBytes = 8 * 1024 * 1024;
const maxLines = 50_000;
const maxMessages = 100;

/**
 * An answer that cannot fill the memory, nor hold up the process: the client checks each message in it, at once where they come as
 * one list, and small ones in 8 MiB are 250,000, or nine seconds. `received` counts what belongs together.
 */
export function limitAnswer(response: Response, received: { bytes: number; lines: number }): Response {
  const limited = limitBody(response, maxBytes, received);
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

/** A list of any length is one text to the limit on bytes, and seconds of work to the client, which checks and complains of each value. */
export function hasTooManyValues(message: unknown): boolean {
  const open = [message];
  let values = 0;
  for (let next = open.pop(); next !== undefined && values <= maxValues; next = open.pop()) {
    if (typeof next !== 'object' || next === null) continue;
    for (const [key, value] of Object.entries(next)) {
      // Taken as it is.
      if (key === 'structuredContent') continue;
      values += 1;
      open.push(value);
    }
  }
  return values > maxValues;
}

const lineFeed = 10;
const carriageReturn = 13;
