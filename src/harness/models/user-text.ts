import type { PromptMessage } from '../model.ts';

/** A user's message as plain text, which names the sender and the attached files. */
export function userText(message: Extract<PromptMessage, { role: 'user' }>): string {
  const said = message.name === undefined ? message.text : `${message.name}: ${message.text}`;
  // Providers refuse a blank text, and every later call that contains it.
  if (message.files === undefined || message.files.length === 0) return said.trim() === '' ? '[no text]' : said;
  return `${said}\n\n[Attached in the workspace: ${message.files.join(', ')}]`;
}
