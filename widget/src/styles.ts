import { css } from 'lit';

/** A page sets colors, font and corner radius with `--parley-*` variables. The default colors follow the light or dark theme. */
export const styles = css`
  :host {
    --accent: var(--parley-accent, light-dark(#2f5bd7, #7c9cff));
    --accent-text: var(--parley-accent-text, light-dark(#ffffff, #0d1220));
    --background: var(--parley-background, light-dark(#ffffff, #15171c));
    --surface: var(--parley-surface, light-dark(#f2f4f8, #22252d));
    --text: var(--parley-text, light-dark(#1b1f27, #e9ebf0));
    --muted: var(--parley-muted, light-dark(#5a6272, #a3abbb));
    --border: var(--parley-border, light-dark(#d9dde5, #363b46));
    --danger: var(--parley-danger, light-dark(#b3261e, #ff8a80));
    --radius: var(--parley-radius, 12px);
    display: block;
    height: 512px;
    max-height: 100%;
    color-scheme: light dark;
  }
  /* The page's text styles are inherited into the shadow root: reset them. No size is in rem, which the page may redefine. */
  .panel, .launcher { color: var(--text); font: var(--parley-font-size, 15px) / 1.5 var(--parley-font, system-ui, sans-serif); letter-spacing: normal; word-spacing: normal; text-align: start; text-indent: 0; text-shadow: none; text-transform: none; white-space: normal; cursor: auto; visibility: visible; }
  :host([theme='light']) { color-scheme: light; }
  :host([theme='dark']) { color-scheme: dark; }
  :host([hidden]) { display: none; }
  :host([floating]) { display: contents; }
  * { box-sizing: border-box; }
  button, textarea { font: inherit; color: inherit; }
  button { cursor: pointer; border: 1px solid var(--border); border-radius: calc(var(--radius) * 0.6); background: var(--background); padding: 0.35em 0.8em; }
  button:disabled { cursor: default; opacity: 0.55; }
  button.primary { background: var(--accent); color: var(--accent-text); border-color: transparent; }
  button.icon { border: 0; background: none; padding: 0.35em; line-height: 0; color: var(--muted); }
  button.icon:hover { color: var(--text); }
  :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
  .panel { display: flex; flex-direction: column; height: 100%; overflow: hidden; background: var(--background); border: 1px solid var(--border); border-radius: var(--radius); }
  .panel.over { outline: 2px dashed var(--accent); outline-offset: -6px; }
  header { display: flex; align-items: center; gap: 0.5em; padding: 0.6em 0.9em; border-bottom: 1px solid var(--border); }
  header h2 { flex: 1; margin: 0; font-size: 1em; }
  .log, .status { overflow-wrap: anywhere; }
  .log { flex: 1; overflow-y: auto; overscroll-behavior: contain; padding: 0.9em; display: flex; flex-direction: column; gap: 0.6em; }
  .row { display: flex; }
  .row.user { justify-content: flex-end; }
  .bubble { max-width: 85%; padding: 0.5em 0.8em; border-radius: var(--radius); background: var(--surface); overflow-wrap: anywhere; }
  .user .bubble { background: var(--parley-user-background, var(--accent)); color: var(--parley-user-text, var(--accent-text)); white-space: pre-wrap; }
  /* Each paragraph takes its direction from its own text, so that right-to-left languages read correctly. */
  .bubble, p, li, th, td, textarea { unicode-bidi: plaintext; }
  .bubble.waiting { opacity: 0.7; }
  .bubble > :first-child { margin-top: 0; }
  .bubble > :last-child { margin-bottom: 0; }
  p { margin: 0 0 0.5em; white-space: pre-wrap; }
  blockquote { margin: 0 0 0.5em; padding-inline-start: 0.7em; border-inline-start: 3px solid var(--border); color: var(--muted); }
  hr { margin: 0.6em 0; border: 0; border-top: 1px solid var(--border); }
  ul, ol { margin: 0 0 0.5em; padding-inline-start: 1.4em; }
  table { display: block; overflow-x: auto; overflow-wrap: normal; border-collapse: collapse; margin: 0 0 0.5em; }
  th, td { padding: 0.2em 0.5em; border: 1px solid var(--border); text-align: start; }
  a { color: inherit; }
  code, pre { font: 0.9em/1.45 ui-monospace, monospace; }
  pre { margin: 0.4em 0; padding: 0.6em; overflow-x: auto; max-height: 16em; background: var(--background); border: 1px solid var(--border); border-radius: calc(var(--radius) * 0.5); white-space: pre-wrap; overflow-wrap: anywhere; }
  .files { margin-top: 0.3em; display: flex; flex-wrap: wrap; gap: 0.3em; }
  .file { display: inline-flex; max-width: 100%; overflow-wrap: anywhere; align-items: center; gap: 0.3em; padding: 0.1em 0.6em; font-size: 0.85em; border: 1px solid currentColor; border-radius: 1em; }
  .file button { border: 0; background: none; padding: 0 0.2em; }
  .notice, .status { margin: 0; color: var(--muted); font-size: 0.9em; text-align: center; }
  .failure, .notice.failure { color: var(--danger); }
  .status:empty { display: none; }
  .status { padding: 0.3em 0.9em; }
  .tool { color: var(--muted); font-size: 0.9em; }
  .approval { padding: 0.7em 0.9em; border: 1px solid var(--accent); border-radius: var(--radius); }
  .approval p { margin-bottom: 0.4em; }
  .choices { display: flex; flex-wrap: wrap; gap: 0.4em; margin-top: 0.6em; }
  .choices button { display: inline-flex; align-items: baseline; gap: 0.5em; }
  kbd { font: 0.8em ui-monospace, monospace; opacity: 0.75; }
  .decision { margin: 0; color: var(--muted); }
  form { display: flex; flex-wrap: wrap; align-items: flex-end; gap: 0.4em; padding: 0.6em; border-top: 1px solid var(--border); }
  form > button { padding: 0.5em; line-height: 0; }
  form .files { flex-basis: 100%; margin: 0; }
  textarea { flex: 1; min-width: 0; max-height: 9em; resize: none; field-sizing: content; padding: 0.4em 0.6em; background: var(--background); border: 1px solid var(--border); border-radius: calc(var(--radius) * 0.6); }
  textarea::placeholder { color: var(--muted); }
  .hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  .dots { display: inline-flex; gap: 0.25em; padding: 0.4em 0; }
  .dots i { width: 0.4em; height: 0.4em; border-radius: 50%; background: var(--muted); animation: pulse 1.2s infinite; }
  .dots i:nth-child(2) { animation-delay: 0.2s; }
  .dots i:nth-child(3) { animation-delay: 0.4s; }
  @keyframes pulse { 0%, 60%, 100% { opacity: 0.3; } 30% { opacity: 1; } }
  @media (prefers-reduced-motion: reduce) { .dots i { animation: none; } }
  .launcher { display: grid; place-items: center; position: fixed; inset-block-end: 20px; inset-inline-end: 20px; z-index: 2147483000; width: 56px; height: 56px; padding: 0; line-height: 0; border: 0; border-radius: 50%; background: var(--accent); color: var(--accent-text); box-shadow: 0 4px 16px rgb(0 0 0 / 0.25); }
  :host([floating]) .panel { position: fixed; inset-block-end: 86px; inset-inline-end: 20px; z-index: 2147483000; width: min(384px, calc(100vw - 40px)); height: min(576px, calc(100dvh - 112px)); box-shadow: 0 12px 40px rgb(0 0 0 / 0.25); }
  :host([floating]) .panel[hidden] { display: none; }
  /* On a phone the chat fills the screen, and the button that closes it is in the header. */
  @media (max-width: 480px), (max-height: 480px) and (pointer: coarse) {
    :host([floating]) .panel { inset: 0; width: auto; height: auto; border: 0; border-radius: 0; padding-block: env(safe-area-inset-top) env(safe-area-inset-bottom); }
    :host([floating]) header { padding-inline-end: 56px; }
    :host([floating]) h2 { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
    .launcher[aria-expanded='true'] { inset-block: env(safe-area-inset-top) auto; inset-inline-end: 8px; width: 44px; height: 44px; background: none; color: var(--muted); box-shadow: none; }
  }
  /* iOS zooms into text fields smaller than 16px, and a touch screen has no number keys to hint at. */
  @media (pointer: coarse) { textarea { font-size: max(16px, 1em); } kbd { display: none; } }
`;
