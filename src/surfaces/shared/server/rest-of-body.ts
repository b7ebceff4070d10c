import type { IncomingMessage } from 'node:http';

const maxBytes = 64 * 1024 * 1024;
const maxMs = 10_000;

/**
 * Reads and discards what is left of a refused body: a client that is still sending when the connection closes would see a broken
 * pipe instead of the response. Returns whether the body came to its end within a size and a time.
 */
export function discardRest(body: IncomingMessage): Promise<boolean> {
  if (body.readableEnded) return Promise.resolve(true);
  if (Number(body.headers['content-length']) > maxBytes) return Promise.resolve(false);
  return new Promise((resolve) => {
    let received = 0;
    const count = (chunk: Buffer) => {
      received += chunk.length;
      if (received > maxBytes) finish();
    };
    const finish = () => {
      clearTimeout(timer);
      body.off('data', count).off('end', finish).off('close', finish);
      resolve(body.readableEnded);
    };
    const timer = setTimeout(finish, maxMs);
    body.unpipe().on('data', count).on('end', finish).on('close', finish).resume();
  });
}
