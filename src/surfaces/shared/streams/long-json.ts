import type { FastifyReply } from 'fastify';
import { CutShort } from '../../../turn/collect.ts';
import { isUnexpected } from '../errors.ts';

const maxSilenceMs = 30_000;
const spaceIntervalMs = 10_000;

/**
 * Sends JSON as soon as it is known. After 30 s it sends the status 200, and then a space every 10 s, which JSON allows before
 * its value: a client would time out on a silent connection and send the request again. A later failure is told in the body. If the turn
 * goes on without this process, the answer breaks off: a whole body would pass for its outcome, and a client that gets a broken one asks
 * again.
 */
export async function sendLongJson<Body>(
  reply: FastifyReply,
  answer: Promise<Body>,
  failureBody: (error: unknown) => unknown,
): Promise<FastifyReply> {
  reply.request.place?.leave();
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), maxSilenceMs);
  });
  const first = await Promise.race([answer.then((body) => ({ body })), silence]).finally(() => clearTimeout(timer));
  if (first !== 'late') return reply.send(first.body);
  reply.hijack();
  const response = reply.raw;
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) response.setHeader(name, value);
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
  response.write(' ');
  const spaces = setInterval(() => response.write(' '), spaceIntervalMs);
  const text = await answer.then(JSON.stringify, (error: unknown) => {
    if (error instanceof CutShort) return undefined;
    if (isUnexpected(error)) reply.log.error({ err: error, request_id: reply.request.id }, 'request failed');
    return JSON.stringify(failureBody(error));
  });
  clearInterval(spaces);
  if (text === undefined) response.destroy();
  else response.end(text);
  return reply;
}
