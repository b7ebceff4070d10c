import { html, type TemplateResult } from 'lit';

type Piece = TemplateResult | string;

/** The part of Markdown that agents write in a chat, as templates: nothing of the text ever becomes HTML by itself. */
export function markdown(text: string): Piece[] {
  return text
    .split(/^(```[^\n]*\n[\s\S]*?(?:^```[^\S\n]*$|$(?![\s\S])))/m)
    .flatMap((block) => (block.startsWith('```') ? [codeBlock(block)] : paragraphs(block)));
}

function codeBlock(block: string): Piece {
  const code = block.replace(/^```[^\n]*\n/, '').replace(/\n?```\s*$/, '');
  return html`<pre tabindex="0"><code>${code}</code></pre>`;
}

function paragraphs(text: string): Piece[] {
  return text
    .split(/\n{2,}/)
    .filter((paragraph) => paragraph.trim() !== '')
    .map((paragraph) => {
      const lines = paragraph.split('\n').filter((line) => line.trim() !== '');
      if (lines.every((line) => /^\s*[-*] /.test(line))) return html`<ul>${items(lines, /^\s*[-*] /)}</ul>`;
      if (lines.every((line) => /^\s*\d+[.)] /.test(line))) return html`<ol>${items(lines, /^\s*\d+[.)] /)}</ol>`;
      const heading = /^#{1,6} (.*)$/.exec(paragraph);
      return heading?.[1] === undefined ? html`<p>${inline(paragraph)}</p>` : html`<p><strong>${inline(heading[1])}</strong></p>`;
    });
}

function items(lines: string[], mark: RegExp): Piece[] {
  return lines.map((line) => html`<li>${inline(line.replace(mark, ''))}</li>`);
}

/** `code`, **bold**, *emphasis*, [links](https://...) and bare addresses; only http and https are ever linked. */
function inline(text: string): Piece[] {
  const marks =
    /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"')]*[^\s<>"').,;:!?])/g;
  const pieces: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(marks)) {
    const [all, code, bold, emphasis, label, target, address] = match;
    pieces.push(text.slice(from, match.index));
    from = match.index + all.length;
    if (code !== undefined) pieces.push(html`<code>${code}</code>`);
    else if (bold !== undefined) pieces.push(html`<strong>${bold}</strong>`);
    else if (emphasis !== undefined) pieces.push(html`<em>${emphasis}</em>`);
    else pieces.push(html`<a href=${target ?? address ?? ''} target="_blank" rel="noopener noreferrer">${label ?? address}</a>`);
  }
  pieces.push(text.slice(from));
  return pieces;
}
