import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

/** Answers with a JSON object whose last field is an array that is written page by page, however long it is. */
export function sendLongArray(
  reply: FastifyReply,
  head: Record<string, unknown>,
  field: string,
  pages: AsyncIterable<unknown[]>,
): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(Readable.from(pieces(head, field, pages), { objectMode: false }));
}

async function* pieces(head: Record<string, unknown>, field: string, pages: AsyncIterable<unknown[]>): AsyncGenerator<string> {
  let text = `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(field)}:[`;
  let isFirst = true;
  for await (const page of pages) {
    for (const item of page) {
      text += `${isFirst ? '' : ','}${JSON.stringify(item)}`;
      isFirst = false;
      if (text.length < 64 * 1024) continue;
      yield text;
      text = '';
    }
  }
  yield `${text}]}`;
}
