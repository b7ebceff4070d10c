/** What the MCP proxy may ask a server. Apart from the client, so that naming them does not load it. */
export const mcpMethods = ['tools/list', 'tools/call', 'resources/list', 'resources/read', 'prompts/list', 'prompts/get'] as const;
export type McpMethod = (typeof mcpMethods)[number];
