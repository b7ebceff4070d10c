// A shop's own web server: it shows a page, and gives the visitor's browser a session token. The API key never leaves it.
//   PARLEY_API_KEY=svc_live_... node examples/widget/server.mjs
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const parley = (process.env.PARLEY_URL ?? 'http://127.0.0.1:8080').replace(/\/+$/, '');
const apiKey = process.env.PARLEY_API_KEY;
const read = (name) => readFileSync(new URL(name, import.meta.url), 'utf8');
const page = read('index.html').replaceAll('{{parley}}', parley);
const style = read('style.css');
// All that the widget needs of a strict policy is the address of Parley, twice.
const policy = `default-src 'none'; style-src 'self'; script-src ${parley}; connect-src 'self' ${parley}`;

const server = createServer((request, response) => {
  // Parley cannot be reached: the widget asks for a token again.
  answer(request, response).catch(() => response.writeHead(502).end());
});

async function answer(request, response) {
  const path = new URL(request.url, 'http://shop').pathname;
  if (request.method === 'GET' && path === '/') {
    const headers = { 'content-security-policy': policy, 'set-cookie': visitorCookie(request) };
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', ...headers }).end(page);
  } else if (request.method === 'GET' && path === '/style.css') {
    response.writeHead(200, { 'content-type': 'text/css; charset=utf-8' }).end(style);
  } else if (request.method === 'POST' && path === '/token') {
    await sendToken(request, response);
  } else {
    response.writeHead(404).end();
  }
}

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
  const token = await minted.text();
  response.writeHead(minted.status, { 'content-type': 'application/json' }).end(token);
}
