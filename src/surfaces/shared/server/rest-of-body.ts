import type { IncomingMessage } from 'node:http';

const mostBytes = 64 * 1024 * 1024;
const longestMs = 10_000;

/**
 * Reads and drops what is left of a body that is refused. A client that is still sending when the connection closes sees a
 * broken pipe in place of the answer. Whether the body came to its end: beyond some size or time nobody waits for it.
 */
export function dropRest(body: IncomingMessage): Promise<boolean> {
  if (body.readableEnded) return Promise.resolve(true);
  if (Number(body.headers['content-length']) > mostBytes) return Promise.resolve(false);
  return new Promise((resolve) => {
    let received = 0;
    const count = (chunk: Buffer) => {
      received += chunk.length;
      if (received > mostBytes) finish();
    };
    const finish = () => {
      clearTimeout(timer);
      body.off('data', count).off('end', finish).off('close', finish);
      resolve(body.readableEnded);
    };
    const timer = setTimeout(finish, longestMs);
    body.on('data', count).on('end', finish).on('close', finish).resume();
  });
}
