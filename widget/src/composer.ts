import { html, nothing, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import { icons } from './icons.ts';
import type { Labels } from './labels.ts';

export interface Composer {
  labels: Labels;
  text: string;
  files: File[];
  running: boolean;
  uploads: boolean;
  disabled: boolean;
  onText(text: string): void;
  onFiles(files: File[]): void;
  onRemove(file: File): void;
  onSend(): void;
  onStop(): void;
}

/** The message field. Enter sends, Shift+Enter starts a line. While the agent works and the field is empty, the button stops it. */
export function composerView(composer: Composer): TemplateResult {
  const { labels, text, files, disabled } = composer;
  const canSend = text.trim() !== '' || files.length > 0;
  const submit = (event: Event) => {
    event.preventDefault();
    // Does not ask `canSend`, which is as old as the last rendering: a fast typist presses Enter before the next one.
    composer.onSend();
  };
  const onKey = (event: KeyboardEvent) => {
    // The Enter that ends a composition must not send. In Safari it has no `isComposing`, only the key code 229.
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && event.keyCode !== 229) submit(event);
  };
  const onInput = ({ target }: Event) => {
    if (target instanceof HTMLTextAreaElement) composer.onText(target.value);
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...(event.clipboardData?.files ?? [])];
    if (!composer.uploads || pasted.length === 0) return;
    // With text that is copied in an office program comes a picture of it.
    if (['text/plain', 'text/html'].every((type) => event.clipboardData?.types.includes(type))) return;
    event.preventDefault();
    composer.onFiles(pasted);
  };
  // Send, Stop and Remove disappear or change when pressed; without this the focus would be lost.
  const onClick = ({ target, currentTarget }: Event) => {
    if (!(target instanceof Element) || !(currentTarget instanceof HTMLFormElement)) return;
    if (target.closest('button:not(.icon)') !== null) currentTarget.querySelector('textarea')?.focus();
  };
  return html`<form part="composer" @submit=${submit} @click=${onClick}>
    ${files.length > 0 ? html`<div class="files">${files.map((file) => chip(file, composer))}</div>` : nothing}
    ${composer.uploads ? attachButton(composer) : nothing}
    <textarea part="input" rows="1" maxlength="200000" enterkeyhint="send" aria-label=${labels.placeholder} placeholder=${labels.placeholder} ?disabled=${disabled}
      .value=${live(text)} @input=${onInput} @keydown=${onKey} @paste=${onPaste}></textarea>
    ${
      composer.running && !canSend
        ? html`<button type="button" class="stop" part="stop" title=${labels.stop} aria-label=${labels.stop} @click=${composer.onStop}>${icons.stop}</button>`
        : html`<button type="submit" class="primary" part="send" title=${labels.send} aria-label=${labels.send} ?disabled=${disabled || !canSend}>${icons.send}</button>`
    }
  </form>`;
}

function chip(file: File, { labels, onRemove }: Composer): TemplateResult {
  return html`<span class="file">${file.name}<button type="button" aria-label="${labels.remove} ${file.name}" @click=${() => onRemove(file)}>×</button></span>`;
}

function attachButton({ labels, disabled, onFiles }: Composer): TemplateResult {
  const pick = ({ currentTarget }: Event) => {
    if (currentTarget instanceof HTMLElement) currentTarget.parentElement?.querySelector('input')?.click();
  };
  const picked = ({ target }: Event) => {
    if (!(target instanceof HTMLInputElement)) return;
    onFiles([...(target.files ?? [])]);
    // Otherwise choosing the same file again would fire no `change` event.
    target.value = '';
  };
  return html`<span>
    <button type="button" class="icon" title=${labels.attach} aria-label=${labels.attach} ?disabled=${disabled} @click=${pick}>${icons.attach}</button>
    <input type="file" multiple hidden tabindex="-1" aria-hidden="true" @change=${picked} />
  </span>`;
}
