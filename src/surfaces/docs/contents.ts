export interface Chapter {
  title: string;
  pages: { name: string; title: string }[];
}

/** The table of contents is read from llms.txt, so that people and programs get the same pages in the same order. */
export function readContents(llms: string): Chapter[] {
  return llms
    .split(/^## /m)
    .slice(1)
    .map((text) => ({
      title: text.split('\n', 1)[0] ?? '',
      pages: [...text.matchAll(/^- \[([^\]]+)\]\(\/docs\/([a-z-]+)\)/gm)].map(([, title = '', name = '']) => ({ name, title })),
    }));
}
