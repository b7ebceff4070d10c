import type { Context } from '../../../context.ts';
import type { MessageReceived } from '../../../session/events.ts';
import { markOfInstructions, newestInstructions } from '../../../session/instructions.ts';
import type { AdapterSession } from './session.ts';

type EarlierMessages = NonNullable<MessageReceived['context']>;

/** What a request says as the system, in all, and what of it a session that goes on would have by now, since clients repeat it. */
export interface SystemTexts {
  all: readonly string[];
  before: EarlierMessages;
}

export function systemTexts(before: EarlierMessages, context: EarlierMessages): SystemTexts {
  return { all: [...before, ...context].flatMap(({ role, text }) => (role === 'system' ? [text] : [])), before };
}

/** What of it the model is to be told: what it was told with the message before is passed over, until it changes. */
export async function tellInstructions(
  context: Context,
  { session, fresh }: AdapterSession,
  { all, before }: SystemTexts,
): Promise<{ told: EarlierMessages; mark: { instructions?: string } }> {
  if (all.length === 0) return { told: [], mark: {} };
  const instructions = markOfInstructions(all);
  const isKnown = !fresh && before.length > 0 && (await newestInstructions(context.database.db, session.id)) === instructions;
  return { told: isKnown ? [] : before, mark: { instructions } };
}
