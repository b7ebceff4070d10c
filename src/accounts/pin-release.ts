import { errorMessage } from '../errors.ts';
import { mcpToolName } from '../mcp-tool-name.ts';
import type { McpServerConfig, ModelConfig, PinnedTool, Provider, ReleaseConfig } from '../release-config.ts';
import { storable } from '../text/storable.ts';
import { completeReleaseConfig } from './complete-release-config.ts';
import type { CredentialFor } from './credential-for.ts';
import type { PinOutcome } from './releases.ts';

/** What materializing needs of the outside world. */
export interface Upstreams {
  /** Throws when a model or MCP server may not be reached at this URL. */
  checkUrl(url: string): Promise<void>;
  credentialFor: CredentialFor;
  /** Whether the operator has a key of their own for the provider. */
  hasOperatorsModelKey(provider: Provider): boolean;
  /** Connects and lists the server's tools; the signal ends it. */
  listServerTools(server: McpServerConfig, credential: string | undefined, signal: AbortSignal): Promise<PinnedTool[]>;
}

/** The steps in their order; the error of a failed release names its step. */
type Step = 'config' | 'credentials' | 'model' | 'mcp_servers';

class StepError extends Error {
  constructor(step: Step, reason: string, cause?: unknown) {
    super(`${step}: ${reason}`, { cause });
  }
}

/** For connecting to a server and listing its tools. */
const serverTimeoutMs = 20_000;

/**
 * Checks a release against the outside world and pins the tools of its MCP servers. What makes it unusable is returned as the
 * outcome `failed`, and so is an abort while a server is asked; anything else is thrown.
 */
export async function pinRelease(orgId: number, config: ReleaseConfig, upstreams: Upstreams, signal: AbortSignal): Promise<PinOutcome> {
  try {
    assertConfig(config);
    const models = [config.model, ...config.agents.flatMap((agent) => agent.model ?? [])];
    for (const model of models) await checkModel(orgId, model, upstreams);
    const pinned = await Promise.all(config.mcp_servers.map((server) => pinServer(orgId, server, upstreams, signal)));
    const pinnedTools = pinned.flat();
    assertDistinctNames(pinnedTools);
    return { state: 'materialized', pinnedTools };
  } catch (error) {
    if (!(error instanceof StepError)) throw error;
    return { state: 'failed', error: storable(error.message.slice(0, 2_000)) };
  }
}

function assertConfig(config: ReleaseConfig): void {
  try {
    completeReleaseConfig(config);
  } catch (error) {
    throw new StepError('config', errorMessage(error), error);
  }
}

async function checkModel(orgId: number, model: ModelConfig, upstreams: Upstreams): Promise<void> {
  if (model.provider === 'offline') return;
  // The operator's key is sent only to the provider's own address: with a `base_url`, a release could have it sent anywhere.
  const usesOperatorsKey = model.base_url === null && upstreams.hasOperatorsModelKey(model.provider);
  // A compatible server often needs no key; the other providers always do.
  if (model.provider !== 'openai-compatible' && !usesOperatorsKey) {
    const own = await upstreams.credentialFor(orgId, model.provider);
    if (own === undefined) {
      throw new StepError('credentials', `no key for ${model.provider}: ${howToStore(model.provider)}`);
    }
  }
  if (model.base_url === null) return;
  try {
    await upstreams.checkUrl(model.base_url);
  } catch (error) {
    throw new StepError('model', errorMessage(error), error);
  }
}

function howToStore(credential: string): string {
  return `store it with PUT /api/model_credentials/${credential}, or: parley credentials set ${credential}`;
}

async function pinServer(orgId: number, server: McpServerConfig, upstreams: Upstreams, signal: AbortSignal): Promise<PinnedTool[]> {
  const credential = server.credential === undefined ? undefined : await upstreams.credentialFor(orgId, server.credential);
  if (server.credential !== undefined && credential === undefined) {
    const name = server.credential;
    throw new StepError('credentials', `the MCP server "${server.name}" needs "${name}", which is not stored: ${howToStore(name)}`);
  }
  await upstreams.checkUrl(server.url).catch((error: unknown) => {
    throw new StepError('mcp_servers', `${server.name}: ${errorMessage(error)}`, error);
  });
  try {
    return await upstreams.listServerTools(server, credential, AbortSignal.any([AbortSignal.timeout(serverTimeoutMs), signal]));
  } catch (error) {
    // It names the server itself.
    throw new StepError('mcp_servers', errorMessage(error), error);
  }
}

/** Model providers refuse two tools of one name, and a permission could not tell them apart. */
function assertDistinctNames(pinnedTools: readonly PinnedTool[]): void {
  const named = new Map<string, PinnedTool>();
  for (const tool of pinnedTools) {
    const name = mcpToolName(tool);
    const other = named.get(name);
    if (other !== undefined) {
      const both = `"${other.name}" of ${other.server} and "${tool.name}" of ${tool.server}`;
      throw new StepError('mcp_servers', `the tools ${both} would both be named ${name}: give one of the servers another name`);
    }
    named.set(name, tool);
  }
}
