import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createMcpHandler, isInitializeRequest, McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { fieldOf } from '../../src/text/json.ts';
import { answerWithFetch } from './answer-with-fetch.ts';
import { type LocalServer, serveLocally } from './local-server.ts';

export interface TestMcpServer extends LocalServer {
  url: string;
  /** The open MCP sessions, if it is of the kind `sessions`. */
  sessions: Map<string, WebStandardStreamableHTTPServerTransport>;
  /** The `authorization` header of every request. */
  credentials: (string | undefined)[];
  /** Requests as `METHOD rpc-method`. */
  requests: string[];
  /** Names pushed here become additional tools. */
  added: string[];
}

export type McpServerKind = 'stateless' | 'sessions' | 'tools-only';

/**
 * A real MCP server over Streamable HTTP that requires `Bearer <token>`. With `sessions` it is of the older, stateful kind, with
 * `tools-only` it has neither resources nor prompts.
 */
export async function startMcpServer(token: string, kind: McpServerKind = 'stateless'): Promise<TestMcpServer> {
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const credentials: (string | undefined)[] = [];
  const requests: string[] = [];
  const added: string[] = [];
  const modern = createMcpHandler(() => buildServer(token, added, kind));

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = Buffer.concat(await incoming.toArray()).toString();
    const parsed: unknown = body === '' ? undefined : JSON.parse(body);
    credentials.push(incoming.headers.authorization);
    requests.push(`${incoming.method} ${fieldOf(parsed, 'method') ?? ''}`);
    if (incoming.headers.authorization !== `Bearer ${token}`) {
      outgoing.writeHead(401).end(`no such credential: ${incoming.headers.authorization}`);
      return;
    }
    await answerWithFetch(incoming, body, outgoing, (request) =>
      kind === 'sessions' ? statefully(request, parsed) : modern.fetch(request),
    );
  }

  async function statefully(request: Request, body: unknown): Promise<Response> {
    const known = sessions.get(request.headers.get('mcp-session-id') ?? '');
    if (known !== undefined) return known.handleRequest(request, { parsedBody: body });
    if (!isInitializeRequest(body)) {
      const error = { code: -32_001, message: 'Session not found' };
      return Response.json({ jsonrpc: '2.0', id: fieldOf(body, 'id'), error }, { status: 404 });
    }
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await buildServer(token, added, kind).connect(transport);
    return transport.handleRequest(request, { parsedBody: body });
  }

  const server = await serveLocally((incoming, outgoing) => {
    answer(incoming, outgoing).catch((error: unknown) => outgoing.writeHead(500).end(String(error)));
  });
  return { ...server, url: `${server.origin}/mcp`, sessions, credentials, requests, added };
}

function buildServer(token: string, added: readonly string[], kind: McpServerKind): McpServer {
  const server = new McpServer({ name: 'crm', version: '1.0.0' });
  const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
  server.registerTool(
    'find',
    { description: 'Find a customer', inputSchema: z.object({ name: z.string() }), annotations: { readOnlyHint: true } },
    async ({ name }) => text(`found ${name}`),
  );
  server.registerTool(
    'rename',
    { description: 'Rename a customer', inputSchema: z.object({ to: z.string() }), annotations: { idempotentHint: true } },
    async ({ to }) => text(`renamed to ${to}`),
  );
  server.registerTool('leak', { description: `Repeats ${token}`, inputSchema: z.object({}) }, async () => text(`the token is ${token}`));
  server.registerTool('fail', { description: 'Fails', inputSchema: z.object({}) }, async () => ({
    ...text('it went wrong'),
    isError: true,
  }));
  server.registerTool('hang', { description: 'Never answers', inputSchema: z.object({}) }, () => new Promise(() => {}));
  for (const name of added) server.registerTool(name, { description: 'Came later', inputSchema: z.object({}) }, async () => text(name));
  if (kind === 'tools-only') return server;
  server.registerResource('notes', 'notes://all', { mimeType: 'text/plain' }, async (uri) => ({
    contents: [{ uri: uri.href, text: 'all notes' }],
  }));
  server.registerPrompt('greet', { description: 'A greeting' }, async () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'say hello' } }],
  }));
  return server;
}
