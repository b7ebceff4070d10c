import type { Chapter } from './contents.ts';

/** A page of documentation as HTML. The Markdown is our own, so HTML in it is trusted. */
export async function pageHtml(page: string, markdown: string, contents: readonly Chapter[]): Promise<string> {
  const { Marked } = await import('marked');
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const html = this.parser.parseInline(tokens);
        const slug = slugOf(html);
        const link = depth === 1 ? '' : ` <a href="#${slug}" aria-label="Link to this section">#</a>`;
        return `<h${depth} id="${slug}">${html}${link}</h${depth}>\n`;
      },
      // `tabindex` lets the keyboard scroll code that is wider than the page.
      code: ({ text }) => `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`,
    },
  });
  const title = /^# (.+)$/m.exec(markdown)?.[1] ?? page;
  const chapters = contents.map(
    (chapter) =>
      `<h2>${escapeHtml(chapter.title)}</h2>${chapter.pages
        .map(({ name, title: label }) => `<a href="/docs/${name}"${name === page ? ' aria-current="page"' : ''}>${escapeHtml(label)}</a>`)
        .join('')}`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} - Parley</title>
<link rel="icon" href="/dashboard/icon.svg">
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<a class="contents" href="#contents">Parley documentation: all pages</a>
<main>${await marked.parse(withOwnLinks(markdown))}</main>
<nav id="contents" aria-label="Documentation"><a class="home" href="/docs/quickstart">Parley</a>${chapters.join('')}<h2>Reference</h2><a href="/docs/api">API reference</a><a href="/openapi.json">OpenAPI document</a><a href="/dashboard">Open the dashboard</a></nav>
</body>
</html>
`;
}

/** In the repository, pages link to each other as files. Here they become links to pages; links to other files become plain text. */
function withOwnLinks(markdown: string): string {
  return markdown
    .replaceAll(/\]\((?:\.\/)?([a-z-]+)\.md(#[^)]*)?\)/g, '](/docs/$1$2)')
    .replaceAll(/(?<!!)\[([^\]]+)\]\((?:\.\.\/|decisions)[^)]*\)/g, '$1');
}

/** The same slugs as GitHub's, so that a link with a # works in both places. */
function slugOf(html: string): string {
  return html
    .replaceAll(/<[^>]+>|&[a-z]+;|&#\d+;/g, '')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
