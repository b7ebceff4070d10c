import { mcpToolName } from '../../mcp-tool-name.ts';
import type { PinnedTool } from '../../release-config.ts';
import { isRecord } from '../../text/json.ts';
import { failed, type Tool, type ToolOutcome } from '../tool.ts';
import { excerpt } from './input.ts';

/** Calls a tool of an MCP server for the session. Throws only when the signal aborts. */
export type McpCall = (server: string, tool: string, input: Record<string, unknown>, signal: AbortSignal) => Promise<ToolOutcome>;

/** The tools of MCP servers, as the release pinned them. */
export function createMcpTools(pinned: readonly PinnedTool[], call: McpCall): Tool[] {
  return pinned.map((tool) => createMcpTool(tool, call));
}

/** What decides whether a call of the tool needs an approval. */
export function mcpToolGuard(pinned: PinnedTool): Pick<Tool, 'name' | 'guards' | 'subject'> {
  return { name: mcpToolName(pinned), guards: () => !pinned.read_only, subject: (input) => JSON.stringify(input) ?? '' };
}

function createMcpTool(pinned: PinnedTool, call: McpCall): Tool {
  return {
    ...mcpToolGuard(pinned),
    description: pinned.description,
    inputSchema: schemaOf(pinned),
    repeatable: pinned.repeatable,
    problem: (input) => (argumentsOf(input) === undefined ? notAnObject : undefined),
    prompt: (input) => `Call the tool ${pinned.name} of ${pinned.server} with ${excerpt(JSON.stringify(input) ?? '{}')}?`,
    async run(input, { signal }) {
      const given = argumentsOf(input);
      if (given === undefined) return failed(notAnObject);
      return call(pinned.server, pinned.name, given, signal);
    },
  };
}

/** OpenAI refuses an object's schema that does not name its properties, and many servers leave them out where there are none. */
function schemaOf({ input_schema: schema }: PinnedTool): Record<string, unknown> {
  return schema.type === 'object' && schema.properties === undefined ? { ...schema, properties: {} } : schema;
}

const notAnObject = 'The input must be an object';

/** A model may leave out the input of a tool that takes none. */
function argumentsOf(input: unknown): Record<string, unknown> | undefined {
  const given = input ?? {};
  return isRecord(given) ? given : undefined;
}
