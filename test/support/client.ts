// A client of a server process, over real sockets.
import { createParser } from 'eventsource-parser';
import type { ServerProcess } from './server-process.ts';

type Json = Record<string, unknown>;

export interface LogEntry extends Json {
  seq: number;
  type: string;
}

export interface TestClient {
  send(
    method: string,
    path: string,
    body?: unknown,
    more?: Record<string, string>,
  ): Promise<{ status: number; body: Json; headers: Headers }>;
  /** The managed log of a session, as it is streamed, until the signal aborts or the connection breaks. */
  follow(agent: string, sessionId: string, after: number, signal: AbortSignal): AsyncGenerator<LogEntry>;
}

export function clientOf(server: Pick<ServerProcess, 'url' | 'apiKey'>, key: string = server.apiKey): TestClient {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return {
    async send(method, path, body, more = {}) {
      const init = { method, headers: { ...headers, ...more }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const response = await fetch(server.url + path, init);
      const text = await response.text();
      return { status: response.status, body: text === '' ? {} : (JSON.parse(text) as Json), headers: response.headers };
    },
    async *follow(agent, sessionId, after, signal) {
      const url = `${server.url}/demo/${agent}/v1/managed-agents/sessions/${sessionId}/events/stream?after=${after}`;
      const response = await fetch(url, { headers, signal });
      const entries: LogEntry[] = [];
      const parser = createParser({ onEvent: (event) => entries.push(JSON.parse(event.data) as LogEntry) });
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? []) {
        parser.feed(decoder.decode(chunk, { stream: true }));
        yield* entries.splice(0);
      }
    },
  };
}
