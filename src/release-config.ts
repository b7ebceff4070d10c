/**
 * What a release says: the agent's instructions, models, tools and rules. Its fields have the names of the wire, because it is stored and
 * shown as it was sent.
 */
export interface ReleaseConfig {
  instructions: string;
  model: ModelConfig;
  /** Name of the sub-agent that new sessions start with. */
  main: string;
  agents: SubAgentConfig[];
  /** Built-in tools of every sub-agent that names none. */
  tools: BuiltInTool[];
  mcp_servers: McpServerConfig[];
  permissions: { mode: PermissionMode; rules: PermissionRule[] };
  instance: { scope: InstanceScope };
  limits: { max_steps: number; turn_timeout_s: number };
  /** What happens when the conversation nears the model's context limit. */
  context: { limit_tokens: number | null; overflow: 'drop' | 'summarize' };
}

export const providers = ['offline', 'openai', 'anthropic', 'google', 'openai-compatible'] as const;
export const builtInTools = ['bash', 'files', 'fetch'] as const;
export const permissionModes = ['interactive', 'autonomous', 'locked'] as const;
export const instanceScopes = ['session', 'end_user', 'shared'] as const;

/** Google takes the model's name as part of a URL, where anything else could make it the URL of a model at another price. */
export const googleModelName = /^((models|tunedModels)\/)?[A-Za-z0-9][A-Za-z0-9._-]*$/;

export type Provider = (typeof providers)[number];
export type BuiltInTool = (typeof builtInTools)[number];
export type PermissionMode = (typeof permissionModes)[number];
export type InstanceScope = (typeof instanceScopes)[number];

export interface ModelConfig {
  provider: Provider;
  name: string;
  base_url: string | null;
  /** Passed to the provider: temperature, max_output_tokens, top_p, stop, and provider_options. */
  settings: Record<string, unknown>;
}

export interface SubAgentConfig {
  name: string;
  instructions: string;
  model?: ModelConfig;
  tools?: BuiltInTool[];
}

export interface McpServerConfig {
  name: string;
  url: string;
  /** Name of the stored credential sent as a bearer token. */
  credential?: string;
}

/** The sub-agent of that name; for a name that the release does not have, one with the instructions of the release. */
export function subAgentOf(release: ReleaseConfig, name: string): SubAgentConfig {
  return release.agents.find((agent) => agent.name === name) ?? { name, instructions: release.instructions };
}

/** The model that a sub-agent calls: its own, or else the release's. */
export function modelConfigOf(release: ReleaseConfig, agent: SubAgentConfig): ModelConfig {
  return agent.model ?? release.model;
}

/** The last rule that matches wins. `match` is a glob over what the tool acts on (a command, a path, a URL). */
export interface PermissionRule {
  tool: string;
  match?: string;
  action: 'allow' | 'ask' | 'deny';
}

/** An MCP tool as it was when the release was materialized. */
export interface PinnedTool {
  server: string;
  name: string;
  description: string;
  input_schema: Record<string, unknown>;
  read_only: boolean;
  /** Marked idempotent by its server: may run again when a process died during it. */
  repeatable: boolean;
}
