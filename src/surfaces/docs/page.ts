/** A page of documentation: our own Markdown, so that what it says is trusted. */
export async function pageHtml(page: string, markdown: string, pages: string[]): Promise<string> {
  const { marked } = await import('marked');
  const body = await marked.parse(markdown.replaceAll(/\]\((?:\.\/)?([a-z-]+)\.md(#[^)]*)?\)/g, '](/docs/$1$2)'));
  const title = /^# (.+)$/m.exec(markdown)?.[1] ?? page;
  const links = pages.map(
    (name) => `<a href="/docs/${name}"${name === page ? ' aria-current="page"' : ''}>${name.replaceAll('-', ' ')}</a>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} - Parley</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<nav aria-label="Documentation"><a href="/docs/quickstart"><strong>Parley</strong></a>${links.join('')}<a href="/docs/api">API reference</a></nav>
<main>${body}</main>
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}

export const style = `
:root { color-scheme: light dark; --text: #1c1e21; --soft: #5d646d; --line: #dfe3e8; --back: #fff; --code: #f4f6f8; --link: #1457a8; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --soft: #9aa4b0; --line: #30363d; --back: #14171a; --code: #1e2328; --link: #7db3f2; } }
* { box-sizing: border-box; }
body { margin: 0; display: grid; grid-template-columns: 14rem minmax(0, 46rem); gap: 3rem; font: 16px/1.6 system-ui, sans-serif; color: var(--text); background: var(--back); }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 2rem 1rem 2rem 1.5rem; border-right: 1px solid var(--line); display: flex; flex-direction: column; gap: .35rem; font-size: .9rem; }
nav a { color: var(--soft); text-decoration: none; text-transform: capitalize; }
nav a:hover, nav a[aria-current] { color: var(--text); }
nav a[aria-current] { font-weight: 600; }
main { padding: 2rem 1.5rem 6rem 0; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
a { color: var(--link); }
pre { background: var(--code); padding: 1rem; overflow: auto; border-radius: 6px; font-size: .85rem; line-height: 1.5; }
code { font-family: ui-monospace, monospace; background: var(--code); padding: .1em .3em; border-radius: 4px; font-size: .9em; }
pre code { padding: 0; font-size: inherit; }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line); }
img { max-width: 100%; }
@media (max-width: 800px) { body { display: block; } nav { position: static; height: auto; flex-direction: row; flex-wrap: wrap; border: 0; border-bottom: 1px solid var(--line); padding: 1rem; } main { padding: 1rem; } }
`;
