import type { Static } from 'typebox';
import { ServiceError } from '../../errors.ts';
import { type ContextMessage, contentText, type MessageInput } from '../shared/adapters/message-input.ts';
import { isTooLong, maxTextCharacters } from '../shared/schemas/message-text.ts';
import type { chatMessage } from './schemas.ts';

type ChatMessage = Static<typeof chatMessage>;

/**
 * Finds the text to run, which is the last user message, and the context that the model sees before it. In a new session that is
 * all earlier messages. An existing session has what came before its newest answer, so its context begins after that; earlier
 * system messages are returned separately. Undefined if there is no text to run.
 */
export function readMessages(messages: readonly ChatMessage[], isNew: boolean): MessageInput | undefined {
  const texts = messages.map(({ content }, index) => contentText(content, `messages.${index}.content`));
  const last = messages.findLastIndex((message) => message.role === 'user');
  const text = texts[last] ?? '';
  if (text === '') return undefined;
  if (isTooLong(text)) throw new ServiceError('invalid', `messages.${last}.content: at most ${maxTextCharacters} characters`);
  const first = isNew ? 0 : messages.findLastIndex((message, index) => index < last && message.role === 'assistant') + 1;
  const context: ContextMessage[] = [];
  const repeatedSystem: ContextMessage[] = [];
  messages.forEach((message, index) => {
    const role = contextRole(message.role);
    const isWanted = role === 'system' || (index >= first && index < last);
    if (isWanted && texts[index] !== '') (index < first ? repeatedSystem : context).push({ role, text: texts[index] ?? '' });
  });
  return { text, context, repeatedSystem };
}

function contextRole(role: ChatMessage['role']): ContextMessage['role'] {
  if (role === 'assistant') return 'assistant';
  return role === 'system' || role === 'developer' ? 'system' : 'user';
}
