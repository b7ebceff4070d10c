import type { PromptMessage } from '../model.ts';

/** A user's message as any provider takes it: who said it and what was attached are told in words. */
export function userText(message: Extract<PromptMessage, { role: 'user' }>): string {
  const said = message.name === undefined ? message.text : `${message.name}: ${message.text}`;
  if (message.files === undefined || message.files.length === 0) return said;
  return `${said}\n\n[Attached in the workspace: ${message.files.join(', ')}]`;
}
