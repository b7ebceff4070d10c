import type { Static } from 'typebox';
import { ServiceError } from '../../errors.ts';
import type { MessageReceived } from '../../session/events.ts';
import { contentText } from '../shared/adapters/content-text.ts';
import { type SystemTexts, systemTexts } from '../shared/adapters/instructions.ts';
import { isTooLong, maxTextCharacters } from '../shared/schemas/message-text.ts';
import type { chatMessage } from './schemas.ts';

type ChatMessage = Static<typeof chatMessage>;
type Context = NonNullable<MessageReceived['context']>;

/**
 * Splits the messages into the text to run (the last user message) and the context that the model sees before it. In a new
 * session the context is all earlier messages. An existing session already has what came before the last answer, so its
 * context begins after that; earlier system messages are returned separately, in `system`. Undefined if there is no text to run.
 */
export function readMessages(
  messages: readonly ChatMessage[],
  isNew: boolean,
): { text: string; context: Context; system: SystemTexts } | undefined {
  const texts = messages.map(({ content }, index) => contentText(content, `messages.${index}.content`));
  const last = messages.findLastIndex((message) => message.role === 'user');
  const text = texts[last] ?? '';
  if (text === '') return undefined;
  if (isTooLong(text)) throw new ServiceError('invalid', `messages.${last}.content: at most ${maxTextCharacters} characters`);
  const first = isNew ? 0 : messages.findLastIndex((message, index) => index < last && message.role === 'assistant') + 1;
  const context: Context = [];
  const before: Context = [];
  messages.forEach((message, index) => {
    const role = contextRole(message.role);
    const isWanted = role === 'system' || (index >= first && index < last);
    if (isWanted && texts[index] !== '') (index < first ? before : context).push({ role, text: texts[index] ?? '' });
  });
  return { text, context, system: systemTexts(before, context) };
}

function contextRole(role: ChatMessage['role']): Context[number]['role'] {
  if (role === 'assistant') return 'assistant';
  return role === 'system' || role === 'developer' ? 'system' : 'user';
}
