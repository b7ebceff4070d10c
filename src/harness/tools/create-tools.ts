import type { BuiltInTool } from '../../release-config.ts';
import type { Tool } from '../tool.ts';
import { createBashTool } from './bash.ts';
import type { ShellPool } from './bash-pool.ts';
import { createFetchTool, type ToolFetch } from './fetch.ts';
import { filesTool } from './files.ts';
import { createHandoffTool } from './handoff.ts';

export interface ToolOptions {
  /** Built-in tools of the sub-agent. */
  names: readonly BuiltInTool[];
  /** The sub-agent that uses the tools, and all those of its release. */
  agent: string;
  agents: readonly string[];
  shell: ShellPool;
  /** In which line commands wait for a shell process. */
  lineId: number;
  /** Must be guarded: public destinations only. */
  fetch: ToolFetch;
}

/** The tools of one sub-agent, apart from those of MCP servers. */
export function createTools({ names, agent, agents, shell, lineId, fetch }: ToolOptions): Tool[] {
  const builders: Record<BuiltInTool, () => Tool> = {
    bash: () => createBashTool(shell, lineId),
    files: () => filesTool,
    fetch: () => createFetchTool({ fetch }),
  };
  const tools = [...new Set(names)].map((name) => builders[name]());
  const others = agents.filter((name) => name !== agent);
  return others.length === 0 ? tools : [...tools, createHandoffTool(others)];
}
