// A model server that speaks the chat-completions wire: 64 chunks of one word, `pace` milliseconds apart.
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { listen } from './listen.ts';

const pace = Number(process.argv[2] ?? '0');
const chunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
const chunks = Array.from({ length: 64 }, (_, index) => chunk(`word${index} `));
const finish = `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: { prompt_tokens: 10, completion_tokens: 64, total_tokens: 74 } })}\n\ndata: [DONE]\n\n`;

const server = createServer((request, response) => {
  request.resume();
  request.on('end', async () => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const text of chunks) {
      response.write(text);
      if (pace > 0) await sleep(pace);
    }
    response.end(finish);
  });
});
await listen(server);
