import { svg, type TemplateResult } from 'lit';

const icon = (path: TemplateResult): TemplateResult =>
  svg`<svg width="20" height="20" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${path}</svg>`;

export const icons = {
  attach: icon(svg`<path d="M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4L14.5 7"/>`),
  send: icon(svg`<path d="M12 20V5M5 12l7-7 7 7"/>`),
  stop: icon(svg`<rect x="6" y="6" width="12" height="12" rx="1"/>`),
  startOver: icon(svg`<path d="M12 5v14M5 12h14"/>`),
  chat: icon(svg`<path d="M4 5h16v11H9l-5 4z"/>`),
  close: icon(svg`<path d="M6 6l12 12M18 6L6 18"/>`),
};
