import type { Database } from '../database/database.ts';
import type { ReleaseConfig } from '../release-config.ts';
import type { Logger } from '../telemetry/logger.ts';
import { SharedWork } from '../work/shared-work.ts';
import type { Directory } from './directory.ts';
import { pinRelease, type Upstreams } from './pin-release.ts';
import { outcomeColumns, type PinOutcome } from './releases.ts';

const lookEveryMs = 30_000;
/** A release younger than this is left to the process that created it. */
const graceMs = 60_000;

/** Materializes the releases that are created in this process, and those that another process left unfinished. */
export class Materializer {
  private readonly database: Database;
  private readonly directory: Directory;
  private readonly upstreams: Upstreams;
  private readonly logger: Logger;
  private readonly running = new SharedWork<void>();
  private readonly closing = new AbortController();
  private timer: NodeJS.Timeout | undefined;
  private looking: Promise<void> = Promise.resolve();

  constructor(database: Database, directory: Directory, upstreams: Upstreams, logger: Logger) {
    this.database = database;
    this.directory = directory;
    this.upstreams = upstreams;
    this.logger = logger;
  }

  /** Looks now, and every half minute, for releases that nobody finished. Materializing one twice is harmless. */
  start(): void {
    const look = (minAgeMs: number) => {
      this.timer = setTimeout(look, lookEveryMs, graceMs).unref();
      this.looking = this.resumeUnfinished(minAgeMs).catch((error: unknown) =>
        this.logger.warn({ err: error }, 'could not look for unfinished releases'),
      );
    };
    look(0);
  }

  /** Cancels what waits for an MCP server: another process, or the next start, materializes it. */
  async close(): Promise<void> {
    clearTimeout(this.timer);
    this.closing.abort();
    await this.looking;
    await this.idle();
  }

  /** Resolves when nothing is being materialized in this process. */
  async idle(): Promise<void> {
    await this.running.ended();
  }

  /** The outcome of a release without MCP servers, which needs no connection; undefined for any other. */
  async pinNow(orgId: number, config: ReleaseConfig): Promise<PinOutcome | undefined> {
    return config.mcp_servers.length > 0 ? undefined : pinRelease(orgId, config, this.upstreams, this.closing.signal);
  }

  /**
   * Materializes in the background. A reason why the release cannot be used is written to its row. An error on our side, such
   * as a database that is unreachable, is logged, and the next look tries again.
   */
  materializeLater(orgId: number, agentId: number, version: number): void {
    void this.running.run(`${agentId}/${version}`, () =>
      this.run(orgId, agentId, version).catch((error: unknown) =>
        this.logger.warn({ err: error, agent_id: agentId, version }, 'could not materialize a release'),
      ),
    );
  }

  private async run(orgId: number, agentId: number, version: number): Promise<void> {
    const release = await this.directory.release(orgId, agentId, version);
    if (release === undefined || release.state === 'materialized' || release.state === 'failed') return;
    await this.update(orgId, agentId, version, { state: 'materializing' });
    const outcome = await pinRelease(orgId, release.config, this.upstreams, this.closing.signal);
    if (this.closing.signal.aborted) return;
    await this.update(orgId, agentId, version, outcomeColumns(outcome, new Date()));
  }

  private async update(
    orgId: number,
    agentId: number,
    version: number,
    values: { state: 'materializing' } | ReturnType<typeof outcomeColumns>,
  ): Promise<void> {
    await this.directory.change(orgId, (transaction) =>
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

  private async resumeUnfinished(minAgeMs: number): Promise<void> {
    const unfinished = await this.database.db
      .selectFrom('releases')
      .select(['org_id', 'agent_id', 'version'])
      .where('state', 'in', ['pending', 'materializing'])
      .where('created_at', '<=', new Date(Date.now() - minAgeMs))
      .limit(100)
      .execute();
    for (const row of unfinished) this.materializeLater(row.org_id, row.agent_id, row.version);
  }
}
