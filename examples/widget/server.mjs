// A shop's own web server: it shows a page, and gives the visitor's browser a session token. The API key never leaves it.
//   PARLEY_API_KEY=svc_live_... node examples/widget/server.mjs
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const parley = process.env.PARLEY_URL ?? 'http://127.0.0.1:8080';
const apiKey = process.env.PARLEY_API_KEY;
const page = readFileSync(new URL('index.html', import.meta.url), 'utf8').replaceAll('{{parley}}', parley);

const server = createServer(async (request, response) => {
  const path = new URL(request.url, 'http://shop').pathname;
  if (request.method === 'GET' && path === '/') {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'set-cookie': visitorCookie(request) }).end(page);
  } else if (request.method === 'POST' && path === '/token') {
    await sendToken(request, response);
  } else {
    response.writeHead(404).end();
  }
});
server.listen(Number(process.env.PORT ?? 8090), '127.0.0.1', () => {
  console.log(`The shop is at http://127.0.0.1:${server.address().port}`);
});

/** Your application knows who is signed in; here everyone is a visitor with a cookie. */
function visitorOf(request) {
  return /(?:^|; )visitor=([\w-]+)/.exec(request.headers.cookie ?? '')?.[1];
}

function visitorCookie(request) {
  return `visitor=${visitorOf(request) ?? randomUUID()}; Path=/; HttpOnly; SameSite=Lax; Max-Age=31536000`;
}

async function sendToken(request, response) {
  const visitor = visitorOf(request);
  if (visitor === undefined) return response.writeHead(401).end();
  const minted = await fetch(`${parley}/api/agents/assistant/session_tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ end_user_id: visitor }),
  });
  response.writeHead(minted.status, { 'content-type': 'application/json' }).end(await minted.text());
}
