import type { CredentialFor } from '../accounts/credential-for.ts';
import type { Directory } from '../accounts/directory.ts';
import { type Release, requireMaterialized } from '../accounts/releases.ts';
import type { Database } from '../database/database.ts';
import { orNotFound, ServiceError } from '../errors.ts';
import { decidePermission } from '../harness/permissions.ts';
import { mcpToolGuard } from '../harness/tools/mcp.ts';
import type { McpConnections } from '../instances/mcp-connections.ts';
import { type McpMethod, mcpMethods } from '../instances/mcp-methods.ts';
import type { McpServerConfig } from '../release-config.ts';
import { readGrants } from '../session/approvals.ts';
import type { Session } from '../session/sessions.ts';
import { isRecord } from '../text/json.ts';
import { mcpTarget } from './mcp-target.ts';
import type { SessionSetting, Settings } from './settings.ts';

/** Lets a browser call the MCP servers of its session, under the same permissions as the agent. */
export interface McpProxy {
  request(session: Session, method: string, params: Record<string, unknown>, signal: AbortSignal): Promise<unknown>;
  /** Whether the request may be sent again when a process died that may have sent it already. */
  mayRepeat(session: Session, method: string, params: Record<string, unknown>): Promise<boolean>;
}

export interface McpProxyParts {
  database: Database;
  directory: Directory;
  settings: Settings;
  mcp: McpConnections;
  credentialFor: CredentialFor;
}

export function createMcpProxy(parts: McpProxyParts): McpProxy {
  const { directory, settings, mcp, credentialFor } = parts;
  return {
    async request(session, method, { server: named, ...params }, signal) {
      const known = mcpMethods.find((candidate) => candidate === method);
      if (known === undefined) throw new ServiceError('bad-request', `method: must be one of ${mcpMethods.join(', ')}`);
      const setting = orNotFound(await settings.of(session.orgId, session.id));
      const release = requireMaterialized(await directory.release(session.orgId, session.agentId, session.releaseVersion));
      const server = chooseServer(release, named);
      if (known === 'tools/call') await assertPermitted(parts.database, { session, setting, release, server, params });
      const target = await mcpTarget(credentialFor, session.orgId, server);
      try {
        const result = await mcp.request(session.id, target, known, params, signal);
        return known === 'tools/list' ? onlyPinned(release, server, result) : result;
      } catch (error) {
        throw error instanceof ServiceError && error.kind === 'invalid' ? asBadRequest(error, known) : error;
      }
    },
    async mayRepeat(session, method, { server: named, name }) {
      if (method !== 'tools/call') return true;
      const release = orNotFound(await directory.release(session.orgId, session.agentId, session.releaseVersion));
      const server = chooseServer(release, named);
      return release.pinnedTools.some((tool) => tool.server === server.name && tool.name === name && tool.repeatable);
    },
  };
}

function chooseServer(release: Release, named: unknown): McpServerConfig {
  const servers = release.config.mcp_servers;
  const [first] = servers;
  if (first === undefined) throw new ServiceError('bad-request', 'The release has no MCP servers.');
  if (named === undefined && servers.length === 1) return first;
  const server = servers.find((candidate) => candidate.name === named);
  if (server === undefined)
    throw new ServiceError('bad-request', `params.server: must be one of ${servers.map((candidate) => candidate.name).join(', ')}`);
  return server;
}

interface ToolCall {
  session: Session;
  setting: SessionSetting;
  release: Release;
  server: McpServerConfig;
  params: Record<string, unknown>;
}

/** Nobody can be asked for an approval here: a call that would ask in a turn is refused, unless the session was already granted it. */
async function assertPermitted(database: Database, { session, setting, release, server, params }: ToolCall): Promise<void> {
  const { world } = setting;
  const pinned = release.pinnedTools.find((tool) => tool.server === server.name && tool.name === params.name);
  if (pinned === undefined) throw new ServiceError('bad-request', 'params.name: the release has no such tool');
  const grants = await readGrants(database.db, session.id);
  const { permissions } = world.release;
  const { action } = decidePermission(mcpToolGuard(pinned), params.arguments ?? {}, permissions.rules, grants, world.permissionMode);
  if (action === 'allow') return;
  const message = action === 'deny' ? 'This tool is not permitted for this agent.' : 'This tool needs an approval for the session first.';
  throw new ServiceError('forbidden', message, { code: action === 'deny' ? 'tool_denied' : 'approval_required' });
}

/** Leaves out tools that the server has added since the release was made: they are not the agent's. */
function onlyPinned(release: Release, server: McpServerConfig, result: unknown): unknown {
  if (!isRecord(result) || !Array.isArray(result.tools)) return result;
  const names = new Set(release.pinnedTools.filter((tool) => tool.server === server.name).map((tool) => tool.name));
  return { ...result, tools: result.tools.filter((tool: { name?: string }) => tool.name !== undefined && names.has(tool.name)) };
}

function asBadRequest(error: ServiceError, method: McpMethod): ServiceError {
  return new ServiceError('bad-request', `${method}: ${error.message}`, { code: 'mcp_server_failed', cause: error });
}
