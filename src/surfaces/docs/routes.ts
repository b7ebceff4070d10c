import { readdir, readFile } from 'node:fs/promises';
import type { FastifyReply } from 'fastify';
import { notFound } from '../../errors.ts';
import type { Server } from '../shared/fastify.ts';
import { wantsPage } from '../shared/pages/wants-page.ts';
import { pathParameter } from '../shared/path.ts';
import { pageHtml, readContents } from './page.ts';

const notFoundPage = '# There is no page of this name\n\nThe menu lists every page. Start with the [quickstart](/docs/quickstart).\n';

const folder = new URL('../../../docs/', import.meta.url);

/** The documentation of the running version, rendered from the Markdown files in the repository. Public. */
export async function docsRoutes(server: Server): Promise<void> {
  const pages = new Set((await readdir(folder)).filter((file) => file.endsWith('.md')).map((file) => file.slice(0, -3)));
  const pictures = new Set((await readdir(new URL('images/', folder))).filter((file) => file.endsWith('.png')));
  const llms = await readFile(new URL('llms.txt', folder), 'utf8');
  const contents = readContents(llms);
  const style = await readFile(new URL('style.css', import.meta.url), 'utf8');
  const rendered = new Map<string, string>();
  const options = { config: { family: 'management' as const }, schema: { hide: true } };

  for (const path of ['/docs', '/docs/']) server.get(path, options, (_request, reply) => reply.redirect('/docs/quickstart', 302));
  server.get('/docs/style.css', options, (_request, reply) =>
    reply.type('text/css; charset=utf-8').header('cache-control', 'max-age=3600').send(style),
  );
  server.get('/docs/:page', options, async (request, reply) => {
    const page = pathParameter(request, 'page');
    if (!pages.has(page) && !wantsPage(request)) throw notFound();
    if (!pages.has(page)) return sendPage(reply.code(404), await pageHtml('', notFoundPage, contents));
    const html = rendered.get(page) ?? (await pageHtml(page, await readFile(new URL(`${page}.md`, folder), 'utf8'), contents));
    rendered.set(page, html);
    return sendPage(reply, html);
  });
  server.get('/docs/images/:picture', options, async (request, reply) => {
    const picture = pathParameter(request, 'picture');
    if (!pictures.has(picture)) throw notFound();
    return reply
      .type('image/png')
      .header('cache-control', 'max-age=3600')
      .send(await readFile(new URL(`images/${picture}`, folder)));
  });
  server.get('/llms.txt', options, (_request, reply) => reply.type('text/plain; charset=utf-8').send(llms));
}

function sendPage(reply: FastifyReply, html: string): FastifyReply {
  return reply
    .type('text/html; charset=utf-8')
    .header('content-security-policy', "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'")
    .send(html);
}
