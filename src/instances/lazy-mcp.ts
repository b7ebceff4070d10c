import { loadOnce } from '../work/load-once.ts';
import type { McpConnectionOptions, McpConnections } from './mcp-connections.ts';

/** Loads the MCP client with the first request to a server: it is 1.7 MB of code that most installations never use. */
export function createLazyMcpConnections(options: McpConnectionOptions): McpConnections {
  const connections = loadOnce(async () => (await import('./mcp-connections.ts')).createMcpConnections(options));
  return {
    request: async (...args) => (await connections.get()).request(...args),
    callTool: async (...args) => (await connections.get()).callTool(...args),
    closeSession: (sessionId) => void connections.loaded().then((open) => open?.closeSession(sessionId)),
    close: () => void connections.loaded().then((open) => open?.close()),
  };
}
