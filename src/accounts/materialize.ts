import type { Database } from '../database/database.ts';
import { errorMessage } from '../errors.ts';
import type { McpServerConfig, ModelConfig, PinnedTool, Provider, ReleaseConfig } from '../release-config.ts';
import type { Directory } from './directory.ts';
import { completeReleaseConfig } from './release-defaults.ts';
import { outcomeColumns, type PinOutcome } from './releases.ts';

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

/** Checks a release against the world and pins the tools it found. A failure names the step and the reason. */
export async function pinRelease(orgId: number, config: ReleaseConfig, upstreams: Upstreams): Promise<PinOutcome> {
  try {
    assertConfig(config);
    const models = [config.model, ...config.agents.flatMap((agent) => agent.model ?? [])];
    for (const model of models) await checkModel(orgId, model, upstreams);
    const pinned = await Promise.all(config.mcp_servers.map((server) => pinServer(orgId, server, upstreams)));
    return { state: 'materialized', pinnedTools: pinned.flat() };
  } catch (error) {
    if (!(error instanceof StepError)) throw error;
    return { state: 'failed', error: error.message.slice(0, 2_000).toWellFormed() };
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

async function pinServer(orgId: number, server: McpServerConfig, upstreams: Upstreams): Promise<PinnedTool[]> {
  const credential = server.credential === undefined ? undefined : await upstreams.credentialFor(orgId, server.credential);
  if (server.credential !== undefined && credential === undefined) {
    const where = `PUT /api/model_credentials/${server.credential}`;
    throw new StepError('credentials', `the MCP server "${server.name}" needs "${server.credential}", which is not stored: ${where}`);
  }
  try {
    await upstreams.checkUrl(server.url);
    return await upstreams.listServerTools(server, credential, AbortSignal.timeout(connectTimeoutMs));
  } catch (error) {
    throw new StepError('mcp_servers', `${server.name}: ${errorMessage(error)}`, error);
  }
}

/** Materializes releases of this process, and takes up those that another one left unfinished. */
export class Materializer {
  readonly #database: Database;
  readonly #directory: Directory;
  readonly #upstreams: Upstreams;
  readonly #running = new Map<string, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(database: Database, directory: Directory, upstreams: Upstreams) {
    this.#database = database;
    this.#directory = directory;
    this.#upstreams = upstreams;
  }

  /** Looks now, and every half minute, for releases that nobody finished. Running one twice is harmless. */
  start(): void {
    const look = (graceMs: number) => {
      this.#timer = setTimeout(() => look(60_000), 30_000).unref();
      // The database may be away; the next look is soon.
      this.#resume(graceMs).catch(() => {});
    };
    look(0);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.idle();
  }

  /** Ends when nothing is being materialized here. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  /** What is known at once of a release that needs no other server; undefined when it must be connected to first. */
  async pinNow(orgId: number, config: ReleaseConfig): Promise<PinOutcome | undefined> {
    return config.mcp_servers.length > 0 ? undefined : pinRelease(orgId, config, this.#upstreams);
  }

  /** Materializes after the answer: a failure to do so is taken up by the next look. */
  materializeLater(orgId: number, agentId: number, version: number): void {
    this.materialize(orgId, agentId, version).catch(() => {});
  }

  /** Ends when the release is materialized or failed; the reason is in its row, not thrown. */
  materialize(orgId: number, agentId: number, version: number): Promise<void> {
    const name = `${agentId}/${version}`;
    const running = this.#running.get(name) ?? this.#run(orgId, agentId, version).finally(() => this.#running.delete(name));
    this.#running.set(name, running);
    return running;
  }

  async #run(orgId: number, agentId: number, version: number): Promise<void> {
    const release = await this.#directory.release(orgId, agentId, version);
    if (release === undefined || release.state === 'materialized' || release.state === 'failed') return;
    await this.#update(orgId, agentId, version, { state: 'materializing' });
    const outcome = await pinRelease(orgId, release.config, this.#upstreams);
    await this.#update(orgId, agentId, version, outcomeColumns(outcome, new Date()));
  }

  async #update(
    orgId: number,
    agentId: number,
    version: number,
    values: { state: 'materializing' } | ReturnType<typeof outcomeColumns>,
  ): Promise<void> {
    await this.#directory.change(orgId, (transaction) =>
      transaction
        .updateTable('releases')
        .set(values)
        .where('org_id', '=', orgId)
        .where('agent_id', '=', agentId)
        .where('version', '=', version)
        .where('state', 'in', ['pending', 'materializing'])
        .execute(),
    );
  }

  async #resume(graceMs: number): Promise<void> {
    const unfinished = await this.#database.db
      .selectFrom('releases')
      .select(['org_id', 'agent_id', 'version'])
      .where('state', 'in', ['pending', 'materializing'])
      .where('created_at', '<=', new Date(Date.now() - graceMs))
      .limit(100)
      .execute();
    await Promise.allSettled(unfinished.map((row) => this.materialize(row.org_id, row.agent_id, row.version)));
  }
}
