import type { CredentialFor } from '../accounts/credential-for.ts';
import type { Directory } from '../accounts/directory.ts';
import type { Config } from '../config.ts';
import type { Database } from '../database/database.ts';
import type { Destinations } from '../destination/destinations.ts';
import type { Model } from '../harness/model.ts';
import { createModel } from '../harness/models/create-model.ts';
import { failed } from '../harness/tool.ts';
import { createShellPool } from '../harness/tools/bash-pool.ts';
import { createTools } from '../harness/tools/create-tools.ts';
import { createMcpTools } from '../harness/tools/mcp.ts';
import type { McpConnections } from '../instances/mcp-connections.ts';
import { workspaceOf } from '../instances/workspace.ts';
import type { ModelConfig, Provider } from '../release-config.ts';
import type { Tracing } from '../telemetry/tracing.ts';
import { mcpTarget } from './mcp-target.ts';
import { Settings } from './settings.ts';

interface WorldParts {
  config: Config;
  database: Database;
  directory: Directory;
  destinations: Destinations;
  mcp: McpConnections;
  credentialFor: CredentialFor;
  tracing: Tracing;
}

/** The settings of sessions, with real models, tools and workspaces: requests are guarded, and files are kept in the database. */
export function createSettings({ config, database, directory, destinations, mcp, credentialFor, tracing }: WorldParts): {
  settings: Settings;
  /** Starts a shell process ahead of the first tool call, which would otherwise wait for it. */
  warmTools(): void;
  close(): void;
} {
  const shell = createShellPool();
  const models = new WeakMap<ModelConfig, { apiKey: string | undefined; model: Model }>();

  /** One model per configuration in a release, made again when the organization's key has changed. */
  async function modelFor(orgId: number, modelConfig: ModelConfig): Promise<{ model: Model; isOnOwnKey: boolean }> {
    const apiKey = await credentialFor(orgId, modelConfig.provider);
    const isOnOwnKey = apiKey !== undefined && modelConfig.provider !== 'offline';
    const known = models.get(modelConfig);
    if (known !== undefined && known.apiKey === apiKey) return { model: known.model, isOnOwnKey };
    const model = createModel(modelConfig, {
      apiKey,
      operatorsModelKey: operatorsModelKey(config, modelConfig.provider),
      fetch: destinations.upstreams.fetch,
      ask: destinations.upstreams.ask,
    });
    models.set(modelConfig, { apiKey, model });
    return { model, isOnOwnKey };
  }

  const settings = new Settings({
    db: database.db,
    directory,
    prices: config.PARLEY_PRICES,
    modelFor,
    traced: tracing.traced,
    toolsFor(session, release, agent) {
      const { config: pinned, pinnedTools } = release;
      const builtIn = createTools({
        names: agent.tools ?? pinned.tools,
        agent: agent.name,
        agents: pinned.agents.map((other) => other.name),
        shell,
        lineId: session.orgId,
        fetch: destinations.web.fetch,
      });
      const remote = createMcpTools(pinnedTools, async (name, tool, input, signal) => {
        const server = pinned.mcp_servers.find((candidate) => candidate.name === name);
        if (server === undefined) return failed(`There is no server named ${name}.`);
        return mcp.callTool(session.id, await mcpTarget(credentialFor, session.orgId, server), tool, input, signal);
      });
      return [...builtIn, ...remote];
    },
    workspaceFor: (session) => workspaceOf(database.db, session),
    closeSession: (sessionId) => mcp.closeSession(sessionId),
  });
  return { settings, warmTools: () => shell.warm(), close: () => shell.close() };
}

/** The operator's own key for a provider; not the operator key, which is for the routes of the operator. */
export function operatorsModelKey(config: Config, provider: Provider): string | undefined {
  const keys: Partial<Record<Provider, string | undefined>> = {
    openai: config.OPENAI_API_KEY,
    anthropic: config.ANTHROPIC_API_KEY,
    google: config.GOOGLE_GENERATIVE_AI_API_KEY,
  };
  return keys[provider];
}
