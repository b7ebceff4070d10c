/** The table of contents is llms.txt: people and programs are shown the same pages, in the same order. */
export interface Chapter {
  title: string;
  pages: { name: string; title: string }[];
}

export function readContents(llms: string): Chapter[] {
  return llms
    .split(/^## /m)
    .slice(1)
    .map((text) => ({
      title: text.split('\n', 1)[0] ?? '',
      pages: [...text.matchAll(/^- \[([^\]]+)\]\(\/docs\/([a-z-]+)\)/gm)].map(([, title = '', name = '']) => ({ name, title })),
    }));
}
