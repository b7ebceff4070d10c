import type { McpConnectionOptions, McpConnections } from './mcp-connections.ts';

/** The MCP client is 1.7 MB of code that most installations never use: it is loaded by the first request to a server. */
export function createLazyMcpConnections(options: McpConnectionOptions): McpConnections {
  let loaded: Promise<McpConnections> | undefined;
  const load = () => {
    loaded ??= import('./mcp-connections.ts').then(({ createMcpConnections }) => createMcpConnections(options));
    return loaded;
  };
  return {
    request: async (...args) => (await load()).request(...args),
    callTool: async (...args) => (await load()).callTool(...args),
    closeSession: (sessionId) => void loaded?.then((connections) => connections.closeSession(sessionId)),
    close: () => void loaded?.then((connections) => connections.close()),
  };
}
