import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { type LocalServer, serveLocally } from './local-server.ts';

/** How the provider answers one request. */
export interface ScriptedAnswer {
  status?: number;
  headers?: Record<string, string>;
  body: string | Buffer;
  /** Sends the body in pieces of this many bytes, each in a write of its own. */
  pieceBytes?: number;
  /** The pause between two pieces. */
  pauseMilliseconds?: number;
  /** The time between the last byte and the end of the response. */
  endsAfterMilliseconds?: number;
  /** Breaks the connection after the body, without ending the response. */
  cut?: boolean;
  /** Leaves the response open after the body. */
  hang?: boolean;
}

export interface ReceivedRequest {
  url: string;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
}

export interface ProviderServer extends LocalServer {
  requests: ReceivedRequest[];
  /** How many responses were sent completely. */
  finished(): number;
  /** How many responses were closed before they were complete. */
  dropped(): number;
}

/** A model provider on 127.0.0.1 that gives these answers in order, and then repeats the last one. */
export async function serveProvider(...answers: ScriptedAnswer[]): Promise<ProviderServer> {
  const requests: ReceivedRequest[] = [];
  let finished = 0;
  let dropped = 0;
  const server = await serveLocally((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const answer = answers[Math.min(requests.length, answers.length - 1)] ?? { body: '' };
      requests.push({ url: request.url ?? '', headers: request.headers, body: JSON.parse(Buffer.concat(chunks).toString('utf8')) });
      response.on('close', () => {
        if (response.writableFinished) finished += 1;
        else dropped += 1;
      });
      send(answer, response);
    });
  });
  return { ...server, requests, finished: () => finished, dropped: () => dropped };
}

export function providerFixture(name: string): string {
  return readFileSync(new URL(`../fixtures/providers/${name}.sse`, import.meta.url), 'utf8');
}

async function send(answer: ScriptedAnswer, response: ServerResponse): Promise<void> {
  const isFailure = (answer.status ?? 200) >= 400;
  response.writeHead(answer.status ?? 200, { 'content-type': isFailure ? 'application/json' : 'text/event-stream', ...answer.headers });
  response.flushHeaders();
  const bytes = Buffer.from(answer.body);
  const size = answer.pieceBytes ?? bytes.length;
  for (let start = 0; start < bytes.length && !response.destroyed; start += size) {
    response.write(bytes.subarray(start, start + size));
    await new Promise((resolve) => {
      if (answer.pauseMilliseconds === undefined) setImmediate(resolve);
      else setTimeout(resolve, answer.pauseMilliseconds);
    });
  }
  if (answer.hang === true) return;
  if (answer.endsAfterMilliseconds !== undefined) await new Promise((resolve) => setTimeout(resolve, answer.endsAfterMilliseconds));
  if (answer.cut === true) response.destroy();
  else response.end();
}
