/** What the MCP proxy may ask a server. It has a file of its own so that importing it does not load the MCP client. */
export const mcpMethods = ['tools/list', 'tools/call', 'resources/list', 'resources/read', 'prompts/list', 'prompts/get'] as const;
export type McpMethod = (typeof mcpMethods)[number];
