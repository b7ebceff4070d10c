import { html, type TemplateResult } from 'lit';

type Piece = TemplateResult | string;

/**
 * Renders the part of Markdown that agents use in a chat. The result is made of templates, which escape every text in them,
 * so that no HTML in an agent's message can take effect.
 */
export function markdown(text: string): Piece[] {
  // Splits off the fenced code blocks; one without a closing fence, which is still being written, reaches to the end.
  return text
    .split(/^([^\S\n]*```[^\n]*\n[\s\S]*?(?:^[^\S\n]*```[^\S\n]*$|$(?![\s\S])))/m)
    .flatMap((block) => (/^\s*```/.test(block) ? [codeBlock(block)] : paragraphs(block)));
}

function codeBlock(block: string): Piece {
  // A code block inside a list is indented as its item is: take that indentation off its lines.
  const indent = new RegExp(`^[^\\S\\n]{0,${block.indexOf('`')}}`, 'gm');
  const code = block
    .replace(indent, '')
    .replace(/^```[^\n]*\n/, '')
    .replace(/\n?```\s*$/, '');
  return html`<pre tabindex="0"><code>${code}</code></pre>`;
}

type Kind = 'blank' | 'rule' | 'quote' | 'heading' | 'bullets' | 'numbers' | 'table' | 'text';

/** Consecutive lines of the same kind form one block. */
function paragraphs(text: string): Piece[] {
  const groups: { kind: Kind; lines: string[] }[] = [];
  for (const line of text.split('\n')) {
    const kind = kindOf(line);
    const last = groups.at(-1);
    if (last?.kind === kind && kind !== 'heading') last.lines.push(line);
    else groups.push({ kind, lines: [line] });
  }
  return groups.filter(({ kind }) => kind !== 'blank').map(({ kind, lines }) => block(kind, lines));
}

const marks: [Kind, RegExp][] = [
  ['blank', /^\s*$/],
  ['rule', /^\s*(?:-{3,}|\*{3,}|_{3,})\s*$/],
  ['quote', /^\s*>/],
  ['heading', /^#{1,6} /],
  ['bullets', /^\s*[-*] /],
  ['numbers', /^\s*\d+[.)] /],
  ['table', /^\s*\|.*\|\s*$/],
];

function kindOf(line: string): Kind {
  return marks.find(([, mark]) => mark.test(line))?.[0] ?? 'text';
}

function block(kind: Kind, lines: string[]): Piece {
  const [first = '', second = ''] = lines;
  const items = () => lines.map((line) => html`<li>${inline(line.replace(/^\s*(?:[-*]|\d+[.)]) /, ''))}</li>`);
  if (kind === 'bullets') return html`<ul dir="auto">${items()}</ul>`;
  if (kind === 'numbers') return html`<ol dir="auto" start=${Number.parseInt(first, 10)}>${items()}</ol>`;
  if (kind === 'rule') return html`<hr />`;
  if (kind === 'quote') return html`<blockquote>${paragraphs(lines.map((line) => line.replace(/^[\s>]+/, '')).join('\n'))}</blockquote>`;
  if (kind === 'heading') return html`<p><strong>${inline(first.replace(/^#+ /, ''))}</strong></p>`;
  if (kind === 'table' && /^[\s|:-]+$/.test(second)) return table(first, lines.slice(2));
  return html`<p>${inline(lines.join('\n'))}</p>`;
}

function table(head: string, rows: string[]): Piece {
  const cells = (line: string) =>
    line
      .trim()
      .slice(1, -1)
      .split('|')
      .map((cell) => inline(cell.trim()));
  return html`<table tabindex="0"><thead><tr>${cells(head).map((cell) => html`<th>${cell}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${cells(row).map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>`;
}

const emphasized = /`([^`\n]+)`|\*\*([^*\s](?:[^*\n]|\*(?!\*))*)\*\*|\*([^*\s][^*\n]*)\*/g;
// Without a maximum, the search for the end of a label would take seconds in a text of many opening brackets.
const links =
  /\[([^\]\n]{1,500})\]\((https?:\/\/(?:[^\s()]|\([^\s()]*\))+)\)|(https?:\/\/(?:[^\s<>"'()]|\([^\s<>"'()]*\))*(?:[^\s<>"'().,;:!?]|\([^\s<>"'()]*\)))/g;
const spans = new RegExp(`${emphasized.source}|${links.source}`, 'g');

/** `code`, **bold**, *emphasis*, [links](https://...) and bare URLs. Only http and https URLs become links. */
function inline(text: string, pattern = spans): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    const [all, code, bold, emphasis, label, target, address] = match;
    pieces.push(text.slice(from, match.index));
    from = match.index + all.length;
    if (code !== undefined) pieces.push(html`<code>${code}</code>`);
    else if (bold !== undefined) pieces.push(html`<strong>${inline(bold, pattern)}</strong>`);
    else if (emphasis !== undefined) pieces.push(html`<em>${inline(emphasis, pattern)}</em>`);
    // No links inside the label, which is often the URL itself: HTML does not allow a link in a link.
    else if (label !== undefined) pieces.push(link(target, inline(label, emphasized)));
    else pieces.push(link(address, [address ?? '']));
  }
  pieces.push(text.slice(from));
  return pieces;
}

function link(address: string | undefined, name: Piece[]): Piece {
  return html`<a href=${address ?? ''} target="_blank" rel="noopener noreferrer">${name}</a>`;
}
