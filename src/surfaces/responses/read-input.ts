import type { Static } from 'typebox';
import { ServiceError } from '../../errors.ts';
import type { MessageReceived } from '../../session/events.ts';
import { contentText } from '../shared/adapters/content-text.ts';
import { type SystemTexts, systemTexts } from '../shared/adapters/instructions.ts';
import { isTooLong, maxTextCharacters } from '../shared/schemas/message-text.ts';
import type { inputItem } from './schemas.ts';

type InputItem = Static<typeof inputItem>;
type Context = NonNullable<MessageReceived['context']>;

/** What the input asks for: a message to run, or the answer to an approval request. */
export type ResponseInput =
  | { type: 'message'; text: string; context: Context; system: SystemTexts }
  | { type: 'approval'; requestId: string; approve: boolean };

/**
 * Finds what to run: the last user message, or the answer to an approval. Throws if there is neither.
 *
 * In a new session, everything before the message is context. Clients repeat the whole conversation, so in an existing session the
 * context begins after the last item of the agent; earlier system messages are returned separately, in `system`.
 *
 * `isWhole` means that the request names no earlier response or conversation, so the items are all there is. If they have both a
 * message and an answer to an approval, the earlier of the two is a repetition and only the later one is new.
 */
export function readInput(input: string | readonly InputItem[], isNew: boolean, isWhole: boolean): ResponseInput {
  const items: readonly InputItem[] = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  const answered = items.findLastIndex((item) => item.type === 'mcp_approval_response');
  const isAnsweredBefore = isWhole && answered < items.findLastIndex(isUserMessage);
  const open = Math.max(items.findLastIndex(isAnswer), isAnsweredBefore ? answered : -1) + 1;
  const first = isNew ? 0 : open;
  const last = items.findLastIndex((item, index) => index >= first && isUserMessage(item));
  if (answered >= open) return readApproval(items[answered], !isWhole && last >= open);
  const text = last < 0 ? '' : textOf(items[last], last);
  if (text === '') throw new ServiceError('invalid', 'input: contains no user message to run');
  if (isTooLong(text)) throw new ServiceError('invalid', `input: at most ${maxTextCharacters} characters in a message`);
  const context: Context = [];
  const before: Context = [];
  for (const [index, item] of items.entries()) {
    const isPast = index < first && item.role !== 'system' && item.role !== 'developer';
    if (isPast || index === last || !isMessage(item)) continue;
    const role = contextRole(item.role, index);
    const earlier = index < last || role === 'system' ? textOf(item, index) : '';
    if (earlier !== '') (index < first ? before : context).push({ role, text: earlier });
  }
  return { type: 'message', text, context, system: systemTexts(before, context) };
}

/** There is one pending approval at a time: of several answers the last one counts. */
function readApproval(chosen: InputItem | undefined, hasMessage: boolean): ResponseInput {
  if (hasMessage) throw new ServiceError('invalid', 'input: answer the approval request first, then send the message');
  if (chosen?.approval_request_id === undefined) throw new ServiceError('invalid', 'input: approval_request_id is required');
  if (chosen.approve === undefined) throw new ServiceError('invalid', 'input: approve is required');
  return { type: 'approval', requestId: chosen.approval_request_id, approve: chosen.approve };
}

/**
 * Whether an item is from an answer of the agent, or refers to one: whatever comes before it has been answered. The output of a
 * call, which the client adds, does not count; the AI SDK sends a `function_call_output` after each denial.
 */
export function isAnswer({ type, role }: { type?: unknown; role?: unknown }): boolean {
  if (isMessage({ type, role })) return role === 'assistant';
  return type !== 'mcp_approval_response' && !String(type).endsWith('_call_output');
}

export function isUserMessage({ type, role }: { type?: unknown; role?: unknown }): boolean {
  return role === 'user' && isMessage({ type, role });
}

function isMessage({ type, role }: { type?: unknown; role?: unknown }): boolean {
  return role !== undefined && (type === undefined || type === 'message');
}

function contextRole(role: string | undefined, index: number): Context[number]['role'] {
  if (role === 'user' || role === 'assistant' || role === 'system') return role;
  if (role === 'developer') return 'system';
  if (role === 'tool') return 'user';
  throw new ServiceError('invalid', `input.${index}.role: must be user, assistant, system or developer`);
}

function textOf(item: InputItem | undefined, index: number): string {
  return contentText(item?.content, `input.${index}.content`);
}
