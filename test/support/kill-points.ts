// A model and a tool that run in the test's process: they see how far a turn of the server under test has come, and can kill the server
// at that point.
import type { ServerResponse } from 'node:http';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { answerWithFetch } from './answer-with-fetch.ts';
import { serveLocally } from './local-server.ts';

export type KillPoint =
  | 'the model was asked'
  | 'the model has called the tool'
  | 'the model has finished the call'
  | 'the tool has begun'
  | 'the tool has answered'
  | 'the model was asked again'
  | 'the model has answered';

export interface KillPoints {
  /** For a release: the model, and the MCP server `shop` with the tool `charge {marker}`. */
  release: Record<string, unknown>;
  /** How often the tool really ran, by marker. */
  runs: Map<string, number>;
  /** Calls `kill` when the turn with this marker reaches this point, then resolves. */
  killAt(point: KillPoint, marker: string, kill: () => Promise<void>): Promise<void>;
  close(): void;
}

/** A message `charge MARKER` makes the model call the tool, and then say `charged MARKER`; any other is answered `noted`. */
export async function serveKillPoints(): Promise<KillPoints> {
  const runs = new Map<string, number>();
  const armed = new Map<string, () => Promise<void>>();

  async function reach(point: KillPoint, marker: string): Promise<void> {
    const kill = armed.get(`${point} ${marker}`);
    armed.delete(`${point} ${marker}`);
    await kill?.();
  }

  async function answerAsModel(body: string, response: ServerResponse): Promise<void> {
    const { messages }: { messages: { role: string; content: unknown }[] } = JSON.parse(body);
    const asked = messages.findLast((message) => message.role === 'user');
    const marker = /charge (\S+)/.exec(JSON.stringify(asked?.content ?? ''))?.[1]?.replace(/\W+$/, '');
    const isSecond = messages.at(-1)?.role === 'tool';
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    if (marker === undefined) return end(response, { content: 'noted' }, 'stop');
    await reach(isSecond ? 'the model was asked again' : 'the model was asked', marker);
    if (isSecond) {
      await end(response, { content: `charged ${marker}` }, 'stop');
      return reach('the model has answered', marker);
    }
    const call = { name: 'shop__charge', arguments: JSON.stringify({ marker }) };
    write(response, { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: 'c1', type: 'function', function: call }] } }] });
    await reach('the model has called the tool', marker);
    await end(response, {}, 'tool_calls');
    return reach('the model has finished the call', marker);
  }

  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: 'shop', version: '1.0.0' });
    const description = 'Charges a card: not to be done twice';
    server.registerTool('charge', { description, inputSchema: z.object({ marker: z.string() }) }, async ({ marker }) => {
      runs.set(marker, (runs.get(marker) ?? 0) + 1);
      await reach('the tool has begun', marker);
      return { content: [{ type: 'text', text: `charged ${marker}` }] };
    });
    return server;
  });

  const server = await serveLocally((incoming, outgoing) => {
    const answer = async () => {
      const body = Buffer.concat(await incoming.toArray()).toString();
      if (incoming.url?.startsWith('/v1/')) return answerAsModel(body, outgoing);
      const marker = /"marker":"([^"]+)"/.exec(body)?.[1];
      if (marker !== undefined) outgoing.once('finish', () => void reach('the tool has answered', marker));
      return answerWithFetch(incoming, body, outgoing, (request) => mcp.fetch(request));
    };
    // The server is killed on purpose while its requests are under way.
    answer().catch(() => outgoing.destroy());
  });

  return {
    release: {
      model: { provider: 'openai-compatible', name: 'scripted', base_url: `${server.origin}/v1` },
      mcp_servers: [{ name: 'shop', url: `${server.origin}/mcp` }],
      permissions: { mode: 'autonomous' },
    },
    runs,
    killAt: (point, marker, kill) =>
      new Promise((resolve, reject) => {
        armed.set(`${point} ${marker}`, () => kill().then(resolve, reject));
      }),
    close: server.close,
  };
}

function write(response: ServerResponse, chunk: unknown): void {
  response.write(`data: ${JSON.stringify(chunk)}\n\n`);
}

/** Resolves when the last byte has left. */
async function end(response: ServerResponse, delta: unknown, finishReason: string): Promise<void> {
  write(response, { choices: [{ index: 0, delta }] });
  const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 };
  write(response, { choices: [{ index: 0, delta: {}, finish_reason: finishReason }], usage });
  await new Promise<void>((resolve) => response.end('data: [DONE]\n\n', resolve));
}
