import type { Context } from '../../../context.ts';
import type { MessageReceived } from '../../../session/events.ts';
import { hashOfInstructions, newestInstructions } from '../../../session/instructions.ts';
import type { AdapterSession } from './session.ts';

type EarlierMessages = NonNullable<MessageReceived['context']>;

/** The system texts of a request: all of them, and those ahead of the last answer, which clients repeat and a session was told before. */
export interface SystemTexts {
  all: readonly string[];
  before: EarlierMessages;
}

export function systemTexts(before: EarlierMessages, context: EarlierMessages): SystemTexts {
  return { all: [...before, ...context].flatMap(({ role, text }) => (role === 'system' ? [text] : [])), before };
}

/** Which of the repeated texts the model is told: none while all are the same as with the message before, else all. */
export async function tellInstructions(
  context: Context,
  { session, fresh }: AdapterSession,
  { all, before }: SystemTexts,
): Promise<{ told: EarlierMessages; mark: { instructions?: string } }> {
  if (all.length === 0) return { told: [], mark: {} };
  const instructions = hashOfInstructions(all);
  const isKnown = !fresh && before.length > 0 && (await newestInstructions(context.database.db, session.id)) === instructions;
  return { told: isKnown ? [] : before, mark: { instructions } };
}
