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
 * What of the messages runs, and what the model is shown before it: in a new session all earlier messages, in one that
 * goes on only those since the last answer, since it has the others; what the system said before that is given apart.
 * Undefined when nobody says anything.
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
