interface Chapter {
  title: string;
  pages: { name: string; title: string }[];
}

/** The HTML of a documentation page. The Markdown is our own, so it may contain HTML. */
export async function pageHtml(page: string, markdown: string, contents: readonly Chapter[]): Promise<string> {
  const { Marked } = await import('marked');
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const text = this.parser.parseInline(tokens);
        const slug = slugOf(text);
        const link = depth === 1 ? '' : ` <a href="#${slug}" aria-label="Link to this section">#</a>`;
        return `<h${depth} id="${slug}">${text}${link}</h${depth}>\n`;
      },
      // Focusable, as tables are, so that a block that is wider than the page can be scrolled with the keyboard.
      code: ({ text }) => `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`,
    },
  });
  const html = (await marked.parse(withOwnLinks(markdown))).replaceAll('<table>', '<table tabindex="0">');
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
<main>${html}</main>
<nav id="contents" aria-label="Documentation"><a class="home" href="/docs/quickstart">Parley</a>${chapters.join('')}<h2>Reference</h2><a href="/docs/api">API reference</a><a href="/openapi.json">OpenAPI document</a><a href="/dashboard">Open the dashboard</a></nav>
</body>
</html>
`;
}

/** Reads the table of contents from llms.txt, so that people and programs see the same pages in the same order. */
export function readContents(llms: string): Chapter[] {
  return llms
    .split(/^## /m)
    .slice(1)
    .map((text) => ({
      title: text.split('\n', 1)[0] ?? '',
      pages: [...text.matchAll(/^- \[([^\]]+)\]\(\/docs\/([a-z-]+)\)/gm)].map(([, title = '', name = '']) => ({ name, title })),
    }));
}

/** The pages link to each other's files, as the repository needs it. Links to files that are not pages are replaced by their text. */
function withOwnLinks(markdown: string): string {
  return markdown
    .replaceAll(/\]\((?:\.\/)?([a-z-]+)\.md(#[^)]*)?\)/g, '](/docs/$1$2)')
    .replaceAll(/(?<!!)\[([^\]]+)\]\((?:\.\.\/|decisions)[^)]*\)/g, '$1');
}

/** The same ids as GitHub's, so that a link to a section works in both places. */
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
