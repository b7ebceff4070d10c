// Sends requests as raw bytes, such as no HTTP client would send.
import { once } from 'node:events';
import { request as requestOver } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

export interface RawAnswer {
  /** 0: the connection was closed without an answer. */
  status: number;
  body: string;
  /** The server neither answered nor closed the connection in time. */
  hung: boolean;
}

/** Sends the bytes on a connection of their own and reads the first answer to its end. */
export function sendBytes(port: number, bytes: Buffer | string, patienceMs = 5_000): Promise<RawAnswer> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    const finish = (hung: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      const [head = '', ...rest] = text.split('\r\n\r\n');
      const body = rest.join('\r\n\r\n').slice(0, lengthOf(head));
      resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0), body, hung });
    };
    const timer = setTimeout(finish, patienceMs, true);
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      if (isComplete(text)) finish(false);
    });
    socket.on('error', () => {});
    socket.on('close', () => finish(false));
    socket.write(bytes);
  });
}

export interface LateRequest {
  headers: Record<string, string>;
  body: unknown;
}

/** Sends the headers of a request, and resolves once the server has them; its body follows when `finish` is called. */
export async function sendLate(url: string, method: string, path: string, { headers, body }: LateRequest) {
  const request = requestOver(new URL(path, url), {
    method,
    headers: { 'content-type': 'application/json', expect: '100-continue', ...headers },
  });
  const answered = once(request, 'response');
  answered.catch(() => {});
  request.flushHeaders();
  await once(request, 'continue');
  return {
    async finish(): Promise<{ status: number; body: string }> {
      request.end(JSON.stringify(body));
      const [response] = await answered;
      return { status: response.statusCode, body: await text(response) };
    },
  };
}

function isComplete(text: string): boolean {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const head = text.slice(0, end).toLowerCase();
  if (head.startsWith('http/1.1 204') || head.startsWith('http/1.1 304')) return true;
  if (/transfer-encoding: chunked/.test(head)) return text.endsWith('0\r\n\r\n');
  return text.length >= end + 4 + (lengthOf(head) ?? 0);
}

function lengthOf(head: string): number | undefined {
  const length = /content-length: (\d+)/i.exec(head)?.[1];
  return length === undefined ? undefined : Number(length);
}
