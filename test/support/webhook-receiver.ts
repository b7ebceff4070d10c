// A customer's webhook endpoint: records what it is sent and answers as the test wants.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Owner } from './app.ts';
import { serveLocally } from './local-server.ts';

export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  /** The raw body. */
  text: string;
  body: ReturnType<typeof JSON.parse>;
}

export interface Receiver {
  url: string;
  received: Received[];
  /** How the next requests are answered: with this status, or by this function. */
  answer: number | ((request: Received, response: ServerResponse) => void);
  /** Resolves with everything received once it satisfies the condition. */
  until(condition: (received: Received[]) => boolean, what?: string): Promise<Received[]>;
}

export async function startReceiver(owner: Owner): Promise<Receiver> {
  let waiting: (() => void)[] = [];
  const receiver: Receiver = {
    url: '',
    received: [],
    answer: 200,
    async until(condition, what = 'the expected requests') {
      const limit = AbortSignal.timeout(20_000);
      while (!condition(receiver.received)) {
        if (limit.aborted) throw new Error(`${what} did not come; received: ${JSON.stringify(receiver.received.map((one) => one.text))}`);
        await new Promise<void>((resolve) => {
          waiting.push(resolve);
          limit.addEventListener('abort', () => resolve(), { once: true });
        });
      }
      return receiver.received;
    },
  };
  const server = await serveLocally((request, response) => void receive(request, response));
  owner.after(async () => server.close());
  receiver.url = `${server.origin}/hook`;
  return receiver;

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString('utf8');
    const entry = { path: request.url ?? '', headers: request.headers, text, body: text === '' ? undefined : JSON.parse(text) };
    receiver.received.push(entry);
    const { answer } = receiver;
    if (typeof answer === 'number') response.writeHead(answer).end('thanks');
    else answer(entry, response);
    for (const wake of waiting) wake();
    waiting = [];
  }
}
