import { fileURLToPath } from 'node:url';
import type { FastifyReply } from 'fastify';
import type { Context } from '../../context.ts';
import { requireOwnAddress } from '../shared/caller/own-address.ts';
import type { Server } from '../shared/fastify.ts';
import { builtFiles, sendBuilt } from '../shared/pages/built-file.ts';
import { wantsPage } from '../shared/pages/wants-page.ts';
import { pathParameter } from '../shared/path.ts';

const folder = fileURLToPath(new URL('../../../dashboard/dist/', import.meta.url));
const config = { family: 'management' as const };
const schema = { hide: true };

/** Scripts, styles and requests only from and to this server, and nothing inline. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Serves the files that `npm run build` made. Every path below /dashboard that is no file and no route is a page of the application. */
export function dashboardPages(server: Server, context: Context): void {
  const onRequest = [requireOwnAddress(context.config)];
  const findBuilt = builtFiles();

  // The start prints this address, so a browser that opens it is sent to the dashboard.
  server.get('/', { config, schema }, (request, reply) => (wantsPage(request) ? reply.redirect('/dashboard/', 302) : reply.callNotFound()));

  server.get('/dashboard', { config, schema, onRequest }, (_request, reply) => reply.redirect('/dashboard/', 302));

  server.get('/dashboard/assets/*', { config, schema, onRequest }, async (request, reply) => {
    const name = pathParameter(request, '*');
    const asset = /^[A-Za-z0-9_.-]+$/.test(name) ? await findBuilt(`${folder}assets/${name}`) : undefined;
    if (asset === undefined) return reply.callNotFound();
    // The name contains a hash of the content, so the content of a name never changes.
    return sendBuilt(request, withSecurityHeaders(reply).header('cache-control', 'public, max-age=31536000, immutable'), asset);
  });

  server.get('/dashboard/icon.svg', { config, schema, onRequest }, async (request, reply) => {
    const icon = await findBuilt(`${folder}icon.svg`);
    if (icon === undefined) return reply.callNotFound();
    return sendBuilt(request, withSecurityHeaders(reply).header('cache-control', 'public, max-age=86400'), icon);
  });

  // Not the page below: during an update, the dashboard in a browser may be newer than this process and ask for routes that it lacks.
  server.get('/dashboard/api/*', { config, schema, onRequest }, (_request, reply) => reply.callNotFound());

  server.get('/dashboard/*', { config, schema, onRequest }, async (request, reply) => {
    withSecurityHeaders(reply).header('cache-control', 'no-cache');
    const page = await findBuilt(`${folder}index.html`);
    return page === undefined ? sendUnbuilt(reply) : sendBuilt(request, reply, page);
  });
}

function withSecurityHeaders(reply: FastifyReply): FastifyReply {
  return reply
    .header('content-security-policy', policy)
    .header('x-content-type-options', 'nosniff')
    .header('referrer-policy', 'no-referrer')
    .header('cross-origin-opener-policy', 'same-origin')
    .header('cross-origin-resource-policy', 'same-origin');
}

function sendUnbuilt(reply: FastifyReply): FastifyReply {
  return reply
    .code(503)
    .type('text/html; charset=utf-8')
    .send(
      '<!doctype html><html lang="en"><title>Parley</title><h1>The dashboard is not built yet</h1>' +
        '<p>Run <code>npm ci --include=dev &amp;&amp; npm run build</code> in the folder of Parley, then reload this page. The API works without it.</p></html>',
    );
}
