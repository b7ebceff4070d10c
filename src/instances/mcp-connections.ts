import type { CallToolResult, Client } from '@modelcontextprotocol/client';
import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.ts';
import { hideSecret } from '../text/hide-secret.ts';
import {
  describeFailure,
  isAnswer,
  isSessionUnknown,
  type McpClient,
  type McpFetch,
  type McpTarget,
  openMcpClient,
  unlessAborted,
} from './mcp-client.ts';
import type { McpMethod } from './mcp-methods.ts';
import { toolResultText } from './mcp-result.ts';

/**
 * The connections of sessions to their MCP servers. Each session has its own connection to a server, because a shared client
 * could give the answer of one session to another. A connection is opened by the first request, closed when idle, and
 * opened again after a failure.
 */
export interface McpConnections {
  /** Throws `upstream` when the server cannot be reached or refuses, `invalid` when it rejects the request. */
  request(sessionId: string, target: McpTarget, method: McpMethod, params: Record<string, unknown>, signal?: AbortSignal): Promise<unknown>;
  /** The output of a tool as text. A failure is returned as output too; it throws only the signal's reason. */
  callTool(
    sessionId: string,
    target: McpTarget,
    tool: string,
    input: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<{ output: string; isError: boolean }>;
  /** When a session was stopped or dropped. */
  closeSession(sessionId: string): void;
  close(): void;
}

export interface McpConnectionOptions {
  fetch: McpFetch;
  /** For one request, once the connection is open. */
  timeoutMs?: number;
  maxConnections?: number;
}

interface Connection {
  key: string;
  sessionId: string;
  credential: string | undefined;
  opened: Promise<McpClient>;
  /** Aborts the opening when nobody waits for it. */
  opening: AbortController;
  /** Requests that wait for an answer. A dropped connection is closed after the last of them. */
  waiting: number;
  dropped: boolean;
}

const idleMs = 300_000;

export function createMcpConnections(options: McpConnectionOptions): McpConnections {
  const { fetch, timeoutMs = 60_000, maxConnections: max = 2_000 } = options;
  const open = new LRUCache<string, Connection>({
    max,
    ttl: idleMs,
    updateAgeOnGet: true,
    ttlAutopurge: true,
    dispose: (connection) => {
      connection.dropped = true;
      ofSession.get(connection.sessionId)?.delete(connection);
      if (ofSession.get(connection.sessionId)?.size === 0) ofSession.delete(connection.sessionId);
      closeUnused(connection);
    },
  });
  /** Thousands of sessions may be dropped at once: nobody looks through all connections for each of them. */
  const ofSession = new Map<string, Set<Connection>>();

  function connectionTo(sessionId: string, target: McpTarget): Connection {
    const key = JSON.stringify([sessionId, target.server.name, target.server.url]);
    const known = open.get(key);
    if (known !== undefined && known.credential === target.credential) return known;
    const opening = new AbortController();
    const opened = openMcpClient(target, fetch, opening.signal);
    const connection = { key, sessionId, credential: target.credential, opened, opening, waiting: 0, dropped: false };
    open.set(key, connection);
    ofSession.set(sessionId, (ofSession.get(sessionId) ?? new Set()).add(connection));
    opened.catch(() => forget(connection));
    return connection;
  }

  function forget(connection: Connection): void {
    if (open.peek(connection.key) === connection) open.delete(connection.key);
  }

  async function send<Answer>(
    sessionId: string,
    target: McpTarget,
    signal: AbortSignal | undefined,
    use: (client: Client) => Promise<Answer>,
  ): Promise<Answer> {
    const connection = connectionTo(sessionId, target);
    try {
      return await sendOver(connection, signal, use);
    } catch (error) {
      if (isAnswer(error) || signal?.aborted) throw error;
      forget(connection);
      if (!isSessionUnknown(error)) throw error;
    }
    return sendOver(connectionTo(sessionId, target), signal, use);
  }

  return {
    async request(sessionId, target, method, params, signal) {
      const limits = { timeout: timeoutMs, maxTotalTimeout: timeoutMs, ...(signal === undefined ? {} : { signal }) };
      try {
        const result = await send(sessionId, target, signal, (client) => client.request({ method, params }, limits));
        return withoutSecret(result, target.credential);
      } catch (error) {
        signal?.throwIfAborted();
        const kind = isAnswer(error) ? 'invalid' : 'upstream';
        const reason = describeFailure(error, target.credential);
        throw new ServiceError(kind, `MCP server ${target.server.name}: ${reason}`, { code: 'mcp_server_failed' });
      }
    },
    async callTool(sessionId, target, tool, input, signal) {
      const limits = { timeout: timeoutMs, maxTotalTimeout: timeoutMs, signal };
      const call = (client: Client): Promise<CallToolResult> => client.callTool({ name: tool, arguments: input }, limits);
      try {
        const result = await send(sessionId, target, signal, call);
        return { output: hideSecret(toolResultText(result), target.credential), isError: result.isError === true };
      } catch (error) {
        signal.throwIfAborted();
        return { output: `MCP server ${target.server.name}: ${describeFailure(error, target.credential)}`, isError: true };
      }
    },
    closeSession(sessionId) {
      for (const { key } of ofSession.get(sessionId) ?? []) open.delete(key);
    },
    close: () => open.clear(),
  };
}

async function sendOver<Answer>(
  connection: Connection,
  signal: AbortSignal | undefined,
  use: (client: Client) => Promise<Answer>,
): Promise<Answer> {
  connection.waiting += 1;
  try {
    // An aborted request stops waiting for the connection, which the next request can use.
    const { client } = await unlessAborted(connection.opened, signal);
    return await use(client);
  } finally {
    connection.waiting -= 1;
    closeUnused(connection);
  }
}

function closeUnused({ dropped, waiting, opened, opening }: Connection): void {
  if (!dropped || waiting > 0) return;
  opening.abort(new Error('The connection was closed'));
  opened.then(
    ({ close }) => close(),
    () => {},
  );
}

function withoutSecret(result: unknown, credential: string | undefined): unknown {
  const text = JSON.stringify(result);
  const hidden = hideSecret(text, credential);
  return hidden === text ? result : JSON.parse(hidden);
}
