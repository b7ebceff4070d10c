import type { Static } from 'typebox';
import { ServiceError } from '../../errors.ts';
import { type ContextMessage, contentText, type MessageInput } from '../shared/adapters/message-input.ts';
import { isTooLong, maxTextCharacters } from '../shared/schemas/message-text.ts';
import { placeOfItem } from './response-ids.ts';
import type { inputItem } from './schemas.ts';

type InputItem = Static<typeof inputItem>;

/** What the input asks for: to run a message, or to answer an approval request. */
export type ResponseInput = ({ type: 'message' } & MessageInput) | { type: 'approval'; requestId: string; approve: boolean };

/**
 * Finds what to run: the last user message, or the answer to an approval. Throws if there is neither.
 *
 * In a new session, everything before the message is context. Clients repeat the whole conversation, so in an existing session the
 * context begins after the newest item of the agent, and has none that was listed as an earlier input; earlier system messages are
 * returned separately.
 *
 * `isWhole` means that the request names no earlier response or conversation, so the items are all there is. If they have both a
 * message and an answer to an approval, the earlier of the two is a repetition and only the later one is new.
 */
export function readInput(input: string | readonly InputItem[], isNew: boolean, isWhole: boolean): ResponseInput {
  const items: readonly InputItem[] = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  const approval = items.findLastIndex((item) => item.type === 'mcp_approval_response');
  const isApprovalRepeated = isWhole && approval < items.findLastIndex(isUserMessage);
  const firstNew = Math.max(items.findLastIndex(isAgentItem), isApprovalRepeated ? approval : -1) + 1;
  const first = isNew ? 0 : firstNew;
  const last = items.findLastIndex((item, index) => index >= first && isUserMessage(item));
  if (approval >= firstNew) return readApproval(items[approval], !isWhole && last >= firstNew);
  const text = last < 0 ? '' : textOf(items[last], last);
  if (text === '') throw new ServiceError('invalid', 'input: contains no user message to run');
  if (isTooLong(text)) throw new ServiceError('invalid', `input: at most ${maxTextCharacters} characters in a message`);
  const context: ContextMessage[] = [];
  const repeatedSystem: ContextMessage[] = [];
  for (const [index, item] of items.entries()) {
    const isRepeated = index < first || (!isNew && placeOfItem(item.id ?? '') !== undefined);
    const isKnown = isRepeated && item.role !== 'system' && item.role !== 'developer';
    if (isKnown || index === last || !isMessage(item)) continue;
    const role = contextRole(item.role, index);
    const earlier = index < last || role === 'system' ? textOf(item, index) : '';
    if (earlier !== '') (isRepeated ? repeatedSystem : context).push({ role, text: earlier });
  }
  return { type: 'message', text, context, repeatedSystem };
}

/** An agent asks for one approval at a time: of several answers the last one counts. */
function readApproval(item: InputItem | undefined, hasMessage: boolean): ResponseInput {
  if (hasMessage) throw new ServiceError('invalid', 'input: answer the approval request first, then send the message');
  if (typeof item?.approval_request_id !== 'string') throw new ServiceError('invalid', 'input: approval_request_id is required');
  if (item.approve === undefined) throw new ServiceError('invalid', 'input: approve is required');
  return { type: 'approval', requestId: item.approval_request_id, approve: item.approve };
}

/**
 * Whether the agent produced the item, or it refers to one that the agent produced: everything before it has been dealt with. What
 * comes from the client may stand behind a message that has not: the AI SDK adds a `function_call_output` of its own after each denied
 * approval, and updates of the model's configuration where its user puts them.
 */
export function isAgentItem({ type, role }: { type?: unknown; role?: unknown }): boolean {
  if (isMessage({ type, role })) return role === 'assistant';
  return !ofClient.test(String(type));
}

const ofClient = /_call_output$|^(mcp_approval_response|tool_search_output|configuration_update|additional_tools|compaction_trigger)$/;

export function isUserMessage({ type, role }: { type?: unknown; role?: unknown }): boolean {
  return role === 'user' && isMessage({ type, role });
}

function isMessage({ type, role }: { type?: unknown; role?: unknown }): boolean {
  return role !== undefined && (type === undefined || type === 'message');
}

function contextRole(role: string | undefined, index: number): ContextMessage['role'] {
  if (role === 'user' || role === 'assistant' || role === 'system') return role;
  if (role === 'developer') return 'system';
  if (role === 'tool') return 'user';
  throw new ServiceError('invalid', `input.${index}.role: must be user, assistant, system or developer`);
}

function textOf(item: InputItem | undefined, index: number): string {
  return contentText(item?.content, `input.${index}.content`);
}
