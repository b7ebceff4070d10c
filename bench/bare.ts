// The lower bound that Parley is compared with: node:http alone. `proxy <upstream>` forwards to a model server; `unary` and
// `stream` answer with constant bytes like those of a turn with the offline model.
import { Agent, createServer, request as send } from 'node:http';
import { listen } from './listen.ts';

const [mode = 'unary', upstream = ''] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });
const words = Array.from({ length: 64 }, (_, index) => `word${index + 1} `);
const answer = JSON.stringify({
  text: words.join(''),
  session_id: 'abc',
  agent: 'main',
  messages: [],
  usage: { input_tokens: 1, output_tokens: 64, total_tokens: 65 },
});
const frames = words.map(
  (text) => `event: text\ndata: ${JSON.stringify({ type: 'text', session_id: 'abc', data: { part: { type: 'text', text } } })}\n\n`,
);

const server = createServer((request, response) => {
  const body: Buffer[] = [];
  request.on('data', (chunk: Buffer) => body.push(chunk));
  request.on('end', () => {
    JSON.parse(Buffer.concat(body).toString('utf8') || '{}');
    if (mode === 'unary') {
      response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
    } else if (mode === 'stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const frame of frames) response.write(frame);
      response.end();
    } else {
      const forwarded = send(
        `${upstream}/chat/completions`,
        { method: 'POST', agent, headers: { 'content-type': 'application/json' } },
        (upstreamResponse) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          upstreamResponse.pipe(response);
        },
      );
      forwarded.end(Buffer.concat(body));
    }
  });
});
listen(server);
