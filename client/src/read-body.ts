import { ConnectionError } from './errors.ts';

/**
 * While a response lasts, the server sends something at least every 15 s: comments in streams, spaces in JSON. After three
 * times that long the connection is taken to be dead.
 */
const silenceMs = 45_000;

export async function readText({ body }: Response): Promise<string> {
  let text = '';
  if (body !== null) for await (const piece of readPieces(body)) text += piece;
  return text;
}

/** The body's text as it arrives. Throws `ConnectionError` on silence; leaving the loop closes the connection. */
export async function* readPieces(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await withTimeout(reader.read());
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    // Not awaited: on a dead connection this can take until the operating system gives the connection up.
    reader.cancel().catch(() => {});
  }
}

async function withTimeout<Value>(reading: Promise<Value>): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new ConnectionError('The connection went silent')), silenceMs);
  });
  return Promise.race([reading, silence]).finally(() => clearTimeout(timer));
}
