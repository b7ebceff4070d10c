import { errorMessage } from '../errors.ts';
import type { McpServerConfig, ModelConfig, PinnedTool, Provider, ReleaseConfig } from '../release-config.ts';
import { storable } from '../storable.ts';
import { completeReleaseConfig } from './complete-release-config.ts';
import type { PinOutcome } from './releases.ts';

/** What materializing needs of the world. */
export interface Upstreams {
  /** Throws when a model or MCP server may not be reached at this URL. */
  checkUrl(url: string): Promise<void>;
  /** The credential of that name that the org stored. */
  credentialFor(orgId: number, name: string): Promise<string | undefined>;
  /** Whether the operator has a key of their own for the provider. */
  hasOperatorKey(provider: Provider): boolean;
  /** Connects and lists the server's tools; the signal ends it. */
  listServerTools(server: McpServerConfig, credential: string | undefined, signal: AbortSignal): Promise<PinnedTool[]>;
}

/** A step of a materialization, in the order in which they are taken; a failure names it. */
type Step = 'config' | 'credentials' | 'model' | 'mcp_servers';

class StepError extends Error {
  constructor(step: Step, reason: string, cause?: unknown) {
    super(`${step}: ${reason}`, { cause });
  }
}

const connectTimeoutMs = 20_000;

/** Checks a release against the world and pins the tools it found. A failure names the step and the reason, as does a signal that ends it. */
export async function pinRelease(orgId: number, config: ReleaseConfig, upstreams: Upstreams, signal?: AbortSignal): Promise<PinOutcome> {
  try {
    assertConfig(config);
    const models = [config.model, ...config.agents.flatMap((agent) => agent.model ?? [])];
    for (const model of models) await checkModel(orgId, model, upstreams);
    const pinned = await Promise.all(config.mcp_servers.map((server) => pinServer(orgId, server, upstreams, signal)));
    return { state: 'materialized', pinnedTools: pinned.flat() };
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
  // The operator's key goes to the provider's own address only, or a release could have it sent anywhere.
  const isCovered = model.base_url === null && upstreams.hasOperatorKey(model.provider);
  // A server of one's own often takes no key; the three services always do.
  if (model.provider !== 'openai-compatible' && !isCovered) {
    const own = await upstreams.credentialFor(orgId, model.provider);
    if (own === undefined) {
      throw new StepError('credentials', `no key for ${model.provider}: store one with PUT /api/model_credentials/${model.provider}`);
    }
  }
  if (model.base_url === null) return;
  try {
    await upstreams.checkUrl(model.base_url);
  } catch (error) {
    throw new StepError('model', errorMessage(error), error);
  }
}

async function pinServer(
  orgId: number,
  server: McpServerConfig,
  upstreams: Upstreams,
  signal: AbortSignal | undefined,
): Promise<PinnedTool[]> {
  const credential = server.credential === undefined ? undefined : await upstreams.credentialFor(orgId, server.credential);
  if (server.credential !== undefined && credential === undefined) {
    const where = `PUT /api/model_credentials/${server.credential}`;
    throw new StepError('credentials', `the MCP server "${server.name}" needs "${server.credential}", which is not stored: ${where}`);
  }
  try {
    await upstreams.checkUrl(server.url);
    const timeout = AbortSignal.timeout(connectTimeoutMs);
    return await upstreams.listServerTools(server, credential, signal === undefined ? timeout : AbortSignal.any([timeout, signal]));
  } catch (error) {
    throw new StepError('mcp_servers', `${server.name}: ${errorMessage(error)}`, error);
  }
}
