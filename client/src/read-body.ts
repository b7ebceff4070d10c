import { ConnectionError } from './errors.ts';

/** The server is never silent for longer than 15 s: streams get comments, long answers get spaces. Three missed, and nobody is there. */
const silenceMs = 45_000;

export async function readText({ body }: Response): Promise<string> {
  let text = '';
  if (body !== null) for await (const piece of readPieces(body)) text += piece;
  return text;
}

/** The body's text as it comes. Throws `ConnectionError` on silence; leaving the loop closes the connection. */
export async function* readPieces(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await inTime(reader.read());
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    // Not awaited: on a dead connection it may take as long as the connection does.
    reader.cancel().catch(() => {});
  }
}

async function inTime<Value>(waiting: Promise<Value>): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new ConnectionError('The connection went silent')), silenceMs);
  });
  return Promise.race([waiting, silence]).finally(() => clearTimeout(timer));
}
