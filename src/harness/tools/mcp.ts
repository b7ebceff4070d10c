import { hash } from 'node:crypto';
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

/** `<server>__<tool>`, in the characters and the length that every model provider accepts. */
export function mcpToolName({ server, name }: Pick<PinnedTool, 'server' | 'name'>): string {
  const full = `${server}__${name}`;
  if (/^[A-Za-z0-9_-]{1,64}$/.test(full)) return full;
  const suffix = hash('sha256', full, 'hex').slice(0, 8);
  return `${full.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 55)}_${suffix}`;
}

function createMcpTool(pinned: PinnedTool, call: McpCall): Tool {
  const name = mcpToolName(pinned);
  return {
    name,
    description: pinned.description,
    inputSchema: pinned.input_schema,
    repeatable: pinned.repeatable,
    guards: () => !pinned.read_only,
    subject: (input) => JSON.stringify(input) ?? '',
    problem: (input) => (argumentsOf(input) === undefined ? notAnObject : undefined),
    prompt: (input) => `Call the tool ${pinned.name} of ${pinned.server} with ${excerpt(JSON.stringify(input) ?? '{}')}?`,
    async run(input, { signal }) {
      const given = argumentsOf(input);
      if (given === undefined) return failed(notAnObject);
      return call(pinned.server, pinned.name, given, signal);
    },
  };
}

const notAnObject = 'The input must be an object';

/** A model may leave out the input of a tool that takes none. */
function argumentsOf(input: unknown): Record<string, unknown> | undefined {
  const given = input ?? {};
  return isRecord(given) ? given : undefined;
}
