import type { CredentialFor } from '../accounts/credential-for.ts';
import type { Directory } from '../accounts/directory.ts';
import { requireMaterialized } from '../accounts/releases.ts';
import { orNotFound } from '../errors.ts';
import type { McpConnections } from '../instances/mcp-connections.ts';
import { WarmSessions } from '../instances/warm-sessions.ts';
import { subAgentOf } from '../release-config.ts';
import type { SessionLog } from '../session/log.ts';
import { mcpTarget } from './mcp-target.ts';
import type { Runner } from './runner.ts';
import type { Settings } from './settings.ts';

export interface WarmingParts {
  directory: Directory;
  settings: Settings;
  runner: Runner;
  log: SessionLog;
  mcp: McpConnections;
  credentialFor: CredentialFor;
  warmTools(): void;
}

/** Loads everything that a session's next turn would wait for: its release, model, tools, log and MCP connections, and a shell. */
export function createWarming({ directory, settings, runner, log, mcp, credentialFor, warmTools }: WarmingParts): WarmSessions {
  const warm = new WarmSessions(async (orgId, sessionId, signal) => {
    const setting = orNotFound(await settings.of(orgId, sessionId));
    requireMaterialized(await directory.release(orgId, setting.agentId, setting.releaseVersion));
    const { world } = setting;
    const main = subAgentOf(world.release, world.release.main);
    await world.modelFor(main, false);
    if (world.toolsFor(main).some((tool) => tool.name === 'bash')) warmTools();
    await runner.states.warm(log, sessionId);
    for (const server of world.release.mcp_servers) {
      await mcp.request(sessionId, await mcpTarget(credentialFor, orgId, server), 'tools/list', {}, signal);
    }
  });
  settings.onForgotten = (sessionId) => warm.forget(sessionId);
  return warm;
}
