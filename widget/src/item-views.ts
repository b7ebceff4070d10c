import { html, nothing, type TemplateResult } from 'lit';
import { guard } from 'lit/directives/guard.js';
import type { Decision } from '../../client/src/index.ts';
import type { Item } from './conversation.ts';
import type { Labels } from './labels.ts';
import { markdown } from './markdown.ts';

export interface ItemActions {
  labels: Labels;
  showTools: boolean;
  /** Id of the approval request whose answer is being sent. */
  answering: string | undefined;
  /** Undefined if somebody else answers the approvals. */
  decide: ((requestId: string, decision: Decision) => void) | undefined;
}

export function itemView(item: Item, actions: ItemActions): TemplateResult | typeof nothing {
  switch (item.kind) {
    case 'user':
      return userView(item.text, item.files, actions.labels, false);
    case 'agent':
      return agentView(item.text, actions.labels);
    case 'stopped':
      return html`<p class="notice" part="notice">${actions.labels.stopped}</p>`;
    case 'failure':
      return html`<p class="notice failure" part="notice failure">${item.text}</p>`;
    case 'tool':
      return actions.showTools ? toolView(item) : nothing;
    case 'approval':
      return approvalView(item, actions);
  }
}

export function userView(text: string, files: string[], labels: Labels, waiting: boolean): TemplateResult {
  const names = files.map((path) => html`<span class="file">${path.split('/').at(-1)}</span>`);
  return html`<div class="row user" part="user-row">
    <div class="bubble ${waiting ? 'waiting' : ''}" part="user-message"><span class="hidden">${labels.you}: </span>${text}${names.length > 0 ? html`<div class="files">${names}</div>` : nothing}</div>
  </div>`;
}

/** `guard` parses the Markdown once. Without it, every word of a new answer would parse all earlier answers again. */
export function agentView(text: string, labels: Labels): TemplateResult {
  return html`<div class="row agent" part="agent-row">
    <div class="bubble" part="agent-message"><span class="hidden">${labels.agent}: </span>${guard([text], () => markdown(text))}</div>
  </div>`;
}

/** The answer being written. A screen reader announces it only when it is complete, as `agentView`. */
export function draftView(text: string, labels: Labels): TemplateResult {
  return html`<div class="row agent" aria-live="off" part="agent-row">
    <div class="bubble draft" part="agent-message">
      ${text === '' ? html`<span class="dots" role="img" aria-label=${labels.writing}><i></i><i></i><i></i></span>` : markdown(text)}
    </div>
  </div>`;
}

function toolView(item: Extract<Item, { kind: 'tool' }>): TemplateResult {
  const state = item.output === undefined ? '…' : item.failed ? '✕' : '✓';
  return html`<details class="tool" part="tool">
    <summary>${state} ${item.tool}</summary>
    <pre tabindex="0">${argumentsText(item.input)}</pre>
    ${item.output === undefined ? nothing : html`<pre tabindex="0">${item.output}</pre>`}
  </details>`;
}

/** While the focus is in the card, the number keys answer. No button has the focus at first, so that Enter approves nothing. */
function approvalView(item: Extract<Item, { kind: 'approval' }>, { labels, answering, decide }: ItemActions): TemplateResult {
  const { question, decision } = item;
  const decided = decision === 'withdrawn' ? labels.stopped : decision === 'deny' ? labels.denied : labels.approved;
  if (decide === undefined) return html`<p class="notice" part="notice">${decision === undefined ? labels.awaiting : decided}</p>`;
  const closed = decision !== undefined || answering === item.id;
  const onKey = (event: KeyboardEvent) => {
    const choice = question.options[Number(event.key) - 1];
    if (closed || choice === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    decide(item.id, choice);
  };
  return html`<div class="approval" part="approval" role="group" tabindex="-1" aria-labelledby="approval-${item.id}" data-request=${item.id} @keydown=${onKey}>
    <p id="approval-${item.id}"><strong>${labels.approval}: ${question.tool}</strong><br />${question.message}</p>
    ${item.input === undefined ? nothing : html`<details><summary>${labels.details}</summary><pre tabindex="0">${argumentsText(item.input)}</pre></details>`}
    ${
      decision === undefined
        ? html`<div class="choices">
          ${question.options.map(
            (option, index) => html`<button
              type="button"
              class=${index === 0 && option !== 'deny' ? 'primary' : ''}
              ?disabled=${closed}
              aria-keyshortcuts=${index + 1}
              @click=${() => decide(item.id, option)}
            >${labels[option]}<kbd aria-hidden="true">${index + 1}</kbd></button>`,
          )}
        </div>`
        : html`<p class="decision">${decided}</p>`
    }
  </div>`;
}

function argumentsText(input: unknown): string {
  return typeof input === 'string' ? input : JSON.stringify(input, null, 2);
}
