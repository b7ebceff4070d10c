import type { Tool } from '@modelcontextprotocol/client';
import { ServiceError } from '../errors.ts';
import type { McpServerConfig, PinnedTool } from '../release-config.ts';
import { hideSecret } from '../text/hide-secret.ts';
import { storable } from '../text/storable.ts';
import { describeFailure, type McpFetch, openMcpClient } from './mcp-client.ts';

/** The tools of a server, to be pinned by a release. Throws `invalid` and says which step failed, and why. */
export async function listServerTools(
  server: McpServerConfig,
  credential: string | undefined,
  fetch: McpFetch,
  signal?: AbortSignal,
): Promise<PinnedTool[]> {
  const { client, close } = await openMcpClient({ server, credential }, fetch, signal).catch((error: unknown) => {
    throw failure(server, 'connecting', error, credential);
  });
  try {
    const listed = await client.listTools({}, signal === undefined ? {} : { signal });
    // The same tool can be on two pages of the list, and model providers refuse two tools of one name.
    const tools = [...Map.groupBy(listed.tools, ({ name }) => name).values()].flatMap(([first]) => first ?? []);
    if (tools.length > maxTools) throw new ServiceError('invalid', `the server has ${tools.length} tools; at most ${maxTools} can be used`);
    return tools.map((tool) => pin(server, tool, credential));
  } catch (error) {
    throw failure(server, 'listing its tools', error, credential);
  } finally {
    await close();
  }
}

function pin(server: McpServerConfig, tool: Tool, credential: string | undefined): PinnedTool {
  if (tool.name !== storable(tool.name))
    throw new ServiceError('invalid', `the name of the tool ${JSON.stringify(tool.name)} cannot be stored`);
  const schema = hideSecret(JSON.stringify(tool.inputSchema), credential);
  if (schema.length > maxSchemaCharacters) {
    throw new ServiceError('invalid', `the input schema of ${tool.name} is longer than ${maxSchemaCharacters} characters`);
  }
  const { readOnlyHint = false, idempotentHint = false } = tool.annotations ?? {};
  return {
    server: server.name,
    name: tool.name,
    description: hideSecret(tool.description ?? tool.title ?? '', credential)
      .slice(0, maxDescriptionCharacters)
      .toWellFormed(),
    input_schema: JSON.parse(schema),
    read_only: readOnlyHint,
    repeatable: readOnlyHint || idempotentHint,
  };
}

function failure(server: McpServerConfig, step: string, error: unknown, credential: string | undefined): ServiceError {
  const reason = describeFailure(error, credential);
  return new ServiceError('invalid', `MCP server ${server.name}: ${step} failed: ${reason}`, { code: 'mcp_server_failed' });
}

const maxTools = 256;
const maxSchemaCharacters = 64 * 1024;
const maxDescriptionCharacters = 8_000;
