// An HTTP proxy in front of the server that breaks connections, or answers in its place, where a test wants it to.
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type LocalServer, serveLocally } from './local-server.ts';

export interface PassedRequest {
  method: string;
  path: string;
  idempotencyKey: string | undefined;
}

export interface BreakingProxy extends LocalServer {
  passed: PassedRequest[];
  /** Ends every connection that is open now. */
  breakAll(): void;
}

/** What happens to a request's answer: it passes (undefined), is cut off after so many bytes, or is replaced by this one. */
export type Break = undefined | { cutAfterBytes: number } | { status: number; headers?: Record<string, string>; body: string };

export async function startBreakingProxy(target: string, plan: (passed: PassedRequest, index: number) => Break): Promise<BreakingProxy> {
  const passed: PassedRequest[] = [];
  const open = new Set<ServerResponse>();

  const server = await serveLocally((incoming, outgoing) => {
    const key = incoming.headers['idempotency-key'];
    const entry = { method: incoming.method ?? '', path: incoming.url ?? '', idempotencyKey: typeof key === 'string' ? key : undefined };
    const planned = plan(entry, passed.push(entry) - 1);
    open.add(outgoing);
    outgoing.on('close', () => open.delete(outgoing));
    if (planned !== undefined && 'status' in planned) {
      incoming.resume().on('end', () => outgoing.writeHead(planned.status, planned.headers).end(planned.body));
      return;
    }
    const onward = request(target + entry.path, { method: entry.method, headers: incoming.headers }, (answer) => {
      pass(answer, outgoing, planned?.cutAfterBytes ?? Number.POSITIVE_INFINITY);
    });
    onward.on('error', () => outgoing.destroy());
    outgoing.on('close', () => onward.destroy());
    incoming.pipe(onward);
  });
  return {
    ...server,
    passed,
    breakAll() {
      for (const outgoing of open) outgoing.destroy();
    },
  };
}

function pass(answer: IncomingMessage, outgoing: ServerResponse, bytes: number): void {
  let left = bytes;
  if (left > 0) outgoing.writeHead(answer.statusCode ?? 502, answer.headers).flushHeaders();
  else outgoing.destroy();
  answer.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left > 0) outgoing.write(chunk);
    else outgoing.write(chunk.subarray(0, chunk.length + left), () => outgoing.destroy());
  });
  answer.on('end', () => outgoing.end());
  answer.on('error', () => outgoing.destroy());
}
