import { html, nothing, type TemplateResult } from 'lit';
import { repeat } from 'lit/directives/repeat.js';
import type { Chat } from './chat.ts';
import { openQuestion } from './conversation.ts';
import { agentView, draftView, type ItemActions, itemView, userView } from './item-views.ts';
import type { Labels } from './labels.ts';

/** The whole conversation: the items of the log, the messages not yet in it, and the answer being written. */
export function messagesView(chat: Chat, greeting: string | undefined, actions: ItemActions): TemplateResult {
  const { labels } = actions;
  const { items, draft, running } = chat.conversation;
  const isAnswerAwaited = draft !== undefined || running || (chat.outgoing.length > 0 && openQuestion(chat.conversation) === undefined);
  return html`${greeting ? agentView(greeting, labels) : nothing}
    ${repeat(
      items,
      (item) => `${item.kind} ${item.id}`,
      (item) => itemView(item, actions),
    )}
    ${chat.outgoing.map(({ text, files }) => userView(text, files, labels, true))}
    ${isAnswerAwaited ? draftView(draft?.text ?? '', labels) : nothing}`;
}

/** The line below the conversation: what went wrong, or that the connection is lost or loading. */
export function statusView(
  chat: Chat | undefined,
  problem: string | undefined,
  labels: Labels,
  retry: () => void,
): TemplateResult | string | typeof nothing {
  const failure = problem ?? chat?.failure;
  // Pressing the button removes it; without this the focus would be lost.
  const onRetry = ({ currentTarget }: Event) => {
    if (currentTarget instanceof Element) currentTarget.closest('section')?.querySelector('textarea')?.focus();
    retry();
  };
  if (failure !== undefined)
    return html`<span class="failure">${failure}</span> ${chat?.state === 'failed' ? html`<button type="button" @click=${onRetry}>${labels.retry}</button>` : nothing}`;
  if (chat?.state === 'lost' || chat?.isWaiting || !navigator.onLine) return labels.lost;
  return chat?.state === 'loading' ? labels.loading : nothing;
}
