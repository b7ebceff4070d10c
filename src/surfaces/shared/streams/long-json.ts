import type { FastifyReply } from 'fastify';
import { isUnexpected } from '../errors.ts';

const patienceMs = 30_000;
const spaceMs = 10_000;

/**
 * Answers with JSON once it is there. When that takes long, sends 200 and a space now and then, which JSON allows before
 * its value: clients give up on a silent connection and would run the turn again. A failure after that is in the body.
 */
export async function sendLongJson<Body>(
  reply: FastifyReply,
  answer: Promise<Body>,
  failureBody: (error: unknown) => unknown,
): Promise<FastifyReply> {
  reply.request.place?.leave();
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), patienceMs);
  });
  const first = await Promise.race([answer.then((body) => ({ body })), patience]).finally(() => clearTimeout(timer));
  if (first !== 'late') return reply.send(first.body);
  reply.hijack();
  const socket = reply.raw;
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) socket.setHeader(name, value);
  socket.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
  socket.write(' ');
  const spaces = setInterval(() => socket.write(' '), spaceMs);
  const text = await answer.then(JSON.stringify, (error: unknown) => {
    if (isUnexpected(error)) reply.log.error({ err: error, request_id: reply.request.id }, 'request failed');
    return JSON.stringify(failureBody(error));
  });
  clearInterval(spaces);
  socket.end(text);
  return reply;
}
