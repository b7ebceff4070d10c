import type { Static } from 'typebox';
import type { Context } from '../../../context.ts';
import { ServiceError } from '../../../errors.ts';
import type { MessageReceived } from '../../../session/events.ts';
import { hashOfInstructions, newestInstructions } from '../../../session/instructions.ts';
import { Type } from '../schemas/type.ts';
import type { AdapterSession } from './session.ts';

export type ContextMessage = NonNullable<MessageReceived['context']>[number];

/** What both adapters read from the messages of a request. */
export interface MessageInput {
  /** The message that is run. */
  text: string;
  /** What the model is shown before it. */
  context: ContextMessage[];
  /** System messages ahead of the session's newest answer. Clients repeat them in every request: the session may know them. */
  repeatedSystem: ContextMessage[];
}

/**
 * The fields of a message that give the model the rest of the request. Repeated system messages are left out if the request has
 * exactly the same system messages as the previous one, whose hash is stored with its message.
 */
export async function contextFieldsOf(
  { database }: Context,
  { session, isNew }: AdapterSession,
  { context, repeatedSystem }: MessageInput,
): Promise<Pick<MessageReceived, 'context' | 'instructions'>> {
  const all = [...repeatedSystem, ...context];
  const systemTexts = all.flatMap(({ role, text }) => (role === 'system' ? [text] : []));
  if (systemTexts.length === 0) return withContext(context);
  const instructions = hashOfInstructions(systemTexts);
  const isKnown = !isNew && repeatedSystem.length > 0 && (await newestInstructions(database.db, session.id)) === instructions;
  return { ...withContext(isKnown ? context : all), instructions };
}

function withContext(context: ContextMessage[]): { context?: ContextMessage[] } {
  return context.length === 0 ? {} : { context };
}

const contentPart = Type.Object({ type: Type.String(), text: Type.Optional(Type.String()), refusal: Type.Optional(Type.String()) });
export const messageContent = Type.Union([Type.String(), Type.Array(contentPart), Type.Null()]);

/** The text of a message's content, whose parts must all be text. */
export function contentText(content: Static<typeof messageContent> | undefined, path: string): string {
  if (typeof content === 'string') return content;
  let text = '';
  for (const [index, part] of (content ?? []).entries()) {
    const piece = part.text ?? part.refusal;
    if (piece === undefined) throw new ServiceError('invalid', `${path}.${index}: only text is accepted`);
    text += piece;
  }
  return text;
}
