// A model server with the chat-completions API: answers a streaming request with 64 chunks of one word, `pace` milliseconds apart,
// each in a write of its own, and any other request with the same words at once.
import { createServer } from 'node:http';
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises';
import { listen } from './listen.ts';

const pace = Number(process.argv[2] ?? '0');
const chunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
const words = Array.from({ length: 64 }, (_, index) => `word${index} `);
const chunks = words.map(chunk);
const usage = { prompt_tokens: 10, completion_tokens: 64, total_tokens: 74 };
const finish = `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage })}\n\ndata: [DONE]\n\n`;

const whole = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: words.join('') }, finish_reason: 'stop' }],
  usage,
});

const server = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (text) => {
    body += text;
  });
  request.on('end', async () => {
    if (!body.includes('"stream":true')) return void response.writeHead(200, { 'content-type': 'application/json' }).end(whole);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const text of chunks) {
      response.write(text);
      await (pace > 0 ? sleep(pace) : nextTick());
    }
    response.end(finish);
  });
});
listen(server);
