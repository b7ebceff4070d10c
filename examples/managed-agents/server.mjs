// Your web server: it shows the page, and gives the signed-in user's browser a session token. The API key never leaves it.
//   PARLEY_API_KEY=svc_live_... node examples/managed-agents/server.mjs
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const parley = (process.env.PARLEY_URL ?? 'http://127.0.0.1:8080').replace(/\/+$/, '');
const page = readFileSync(new URL('index.html', import.meta.url), 'utf8').replaceAll('{{parley}}', parley);

const server = createServer((request, response) => {
  // Parley cannot be reached: the page asks for a token again.
  answer(request, response).catch(() => response.writeHead(502).end());
});

async function answer(request, response) {
  if (request.method === 'GET' && request.url === '/') {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page);
  } else if (request.method === 'POST' && request.url === '/token') {
    const minted = await fetch(`${parley}/api/agents/assistant/session_tokens`, {
      method: 'POST',
      headers: { authorization: `Bearer ${process.env.PARLEY_API_KEY}`, 'content-type': 'application/json' },
      // Whoever is signed in to your application: never what the browser says.
      body: JSON.stringify({ end_user_id: 'user_42', ttl_seconds: 900 }),
    });
    const token = await minted.text();
    response.writeHead(minted.status, { 'content-type': 'application/json' }).end(token);
  } else {
    response.writeHead(404).end();
  }
}

server.listen(Number(process.env.PORT ?? 8090), '127.0.0.1', () => {
  console.log(`The page is at http://127.0.0.1:${server.address().port}`);
});
