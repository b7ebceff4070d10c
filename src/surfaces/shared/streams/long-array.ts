import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

/** Sends a JSON object whose last field is an array. It is read and written page by page: memory does not grow with its length. */
export function sendLongArray(
  reply: FastifyReply,
  head: Record<string, unknown>,
  field: string,
  pages: AsyncIterable<unknown[]>,
): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(Readable.from(chunks(reply, head, field, pages), { objectMode: false }));
}

async function* chunks(
  { request }: FastifyReply,
  head: Record<string, unknown>,
  field: string,
  pages: AsyncIterable<unknown[]>,
): AsyncGenerator<string> {
  let text = `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(field)}:[`;
  let isFirst = true;
  for await (const page of pages) {
    for (const item of page) {
      text += `${isFirst ? '' : ','}${JSON.stringify(item)}`;
      isFirst = false;
      if (text.length < 64 * 1024) continue;
      // From here on the client sets the pace.
      request.place?.leave();
      yield text;
      text = '';
    }
  }
  yield `${text}]}`;
}
