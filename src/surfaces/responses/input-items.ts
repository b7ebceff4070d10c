import type { FastifyReply } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { orNotFound, ServiceError } from '../../errors.ts';
import type { MessageReceived, StoredEvent } from '../../session/events.ts';
import { findTurnInput } from '../../turn/find-turns.ts';
import { limitOf } from '../shared/schemas/list.ts';
import { type OutputItem, ResponseAnswer } from './answer.ts';
import type { FoundResponse } from './named-session.ts';
import { approvalItemId, messageItemId, responsePlace } from './response-ids.ts';
import type { inputItemsQuery } from './schemas.ts';

type ListedItem =
  | OutputItem
  | { id: string; type: 'message'; status: 'completed'; role: 'user' | 'system'; content: { type: 'input_text'; text: string }[] }
  | { id: string; type: 'mcp_approval_response'; approval_request_id: string; approve: boolean };

/** Where a page ends before its limit: a hundred of the longest items are 20 MB. */
const pageCharacters = 4_000_000;

/** Lists what a response was made from: the conversation before it, and its own input. */
export async function listInputItems(
  context: Context,
  reply: FastifyReply,
  found: FoundResponse,
  query: Static<typeof inputItemsQuery>,
): Promise<FastifyReply> {
  const limit = limitOf(query, 20, 100);
  const items = readItems(context, found);
  const { data, hasMore } = await (query.order === 'asc' ? readFirst(items, query.after, limit) : readLast(items, query.after, limit));
  reply.header('x-svc-session', found.session.id);
  return reply.send({
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: hasMore,
  });
}

interface Page {
  data: ListedItem[];
  hasMore: boolean;
}

async function readFirst(items: AsyncIterable<ListedItem>, after: string | undefined, limit: number): Promise<Page> {
  const data: ListedItem[] = [];
  let characters = 0;
  let isBehind = after === undefined;
  for await (const item of items) {
    if (isBehind) {
      characters += charactersOf(item);
      if (data.length === limit || (data.length > 0 && characters > pageCharacters)) return { data, hasMore: true };
      data.push(item);
    }
    isBehind ||= item.id === after;
  }
  if (!isBehind) throw noSuchItem();
  return { data, hasMore: false };
}

/** The last ones, the newest first; with `after`, of those that are older than it. Never more than a page of them is in memory. */
async function readLast(items: AsyncIterable<ListedItem>, after: string | undefined, limit: number): Promise<Page> {
  const last: { item: ListedItem; characters: number }[] = [];
  let characters = 0;
  let hasMore = false;
  const page = () => ({ data: last.map(({ item }) => item).toReversed(), hasMore });
  for await (const item of items) {
    if (item.id === after) return page();
    const newest = { item, characters: charactersOf(item) };
    last.push(newest);
    characters += newest.characters;
    while (last.length > limit || (last.length > 1 && characters > pageCharacters)) {
      characters -= last.shift()?.characters ?? 0;
      hasMore = true;
    }
  }
  if (after !== undefined) throw noSuchItem();
  return page();
}

function charactersOf(item: ListedItem): number {
  return JSON.stringify(item).length;
}

function noSuchItem(): ServiceError {
  return new ServiceError('invalid', 'after: is not the id of an input item of this response');
}

async function* readItems(context: Context, { place, session }: FoundResponse): AsyncGenerator<ListedItem> {
  const { input, firstSeq } = orNotFound(await findTurnInput(context.database.db, session.orgId, place.turnId));
  const lastSeq = place.after === 0 ? (firstSeq ?? Number.POSITIVE_INFINITY) : place.after;
  const reader = new ItemReader();
  for await (const events of context.log.readAll(session.id)) {
    for (const event of events) {
      if (event.seq > lastSeq) return;
      yield* reader.itemsOf(event);
    }
  }
  // The message of a turn that still waits is not in the log yet.
  if (firstSeq === null) yield* messageItems(place.turnId, input);
}

/** Reads a log as items. What the agent said has the ids that it has in its response. */
class ItemReader {
  private answer: ResponseAnswer | undefined;

  itemsOf(event: StoredEvent): ListedItem[] {
    switch (event.type) {
      case 'message-received':
        // A message that no turn answers may come in the middle of one.
        if (!event.data.silent) this.begin(event.turnId, 0);
        return messageItems(event.turnId, event.data);
      case 'approval-resolved': {
        const { requestId, decision } = event.data;
        this.begin(event.turnId, event.seq);
        const approve = decision !== 'deny';
        return [{ id: approvalItemId(requestId), type: 'mcp_approval_response', approval_request_id: requestId, approve }];
      }
      default: {
        const known = this.answer?.items.length;
        this.answer?.apply(event);
        return this.answer?.items.slice(known) ?? [];
      }
    }
  }

  private begin(turnId: string, after: number): void {
    this.answer = new ResponseAnswer(responsePlace(turnId, after), '', {});
  }
}

function messageItems(turnId: string, { text, context = [] }: MessageReceived): ListedItem[] {
  const earlier = context.map((message, index) => messageItem(messageItemId(turnId, index), message.role, message.text));
  return [...earlier, messageItem(messageItemId(turnId), 'user', text)];
}

function messageItem(id: string, role: 'user' | 'assistant' | 'system', text: string): ListedItem {
  const head = { id, type: 'message' as const, status: 'completed' as const };
  if (role === 'assistant') return { ...head, role, content: [{ type: 'output_text', text, annotations: [] }] };
  return { ...head, role, content: [{ type: 'input_text', text }] };
}
