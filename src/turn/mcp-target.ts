import type { CredentialFor } from '../accounts/credential-for.ts';
import type { McpTarget } from '../instances/mcp-client.ts';
import type { McpServerConfig } from '../release-config.ts';

/** An MCP server with its credential, read each time because it may change while a session lives. */
export async function mcpTarget(credentialFor: CredentialFor, orgId: number, server: McpServerConfig): Promise<McpTarget> {
  const credential = server.credential === undefined ? undefined : await credentialFor(orgId, server.credential);
  return { server, credential };
}
