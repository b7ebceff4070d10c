import type { Database } from '../database/database.ts';
import type { ReleaseConfig } from '../release-config.ts';
import type { Logger } from '../telemetry/logger.ts';
import { UnderWay } from '../under-way.ts';
import type { Directory } from './directory.ts';
import { pinRelease, type Upstreams } from './pin-release.ts';
import { outcomeColumns, type PinOutcome } from './releases.ts';

const lookEveryMs = 30_000;
/** A release younger than this is still in the hands of the process that made it. */
const graceMs = 60_000;

/** Materializes releases of this process, and takes up those that another one left unfinished. */
export class Materializer {
  private readonly database: Database;
  private readonly directory: Directory;
  private readonly upstreams: Upstreams;
  private readonly logger: Logger;
  private readonly running = new UnderWay<void>();
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
    const look = (youngestMs: number) => {
      this.timer = setTimeout(look, lookEveryMs, graceMs).unref();
      this.looking = this.resume(youngestMs).catch((error: unknown) =>
        this.logger.warn({ err: error }, 'could not look for unfinished releases'),
      );
    };
    look(0);
  }

  /** What waits for a server is left to the next start, or to another process. */
  async close(): Promise<void> {
    clearTimeout(this.timer);
    this.closing.abort();
    await this.looking;
    await this.idle();
  }

  /** Ends when nothing is being materialized here. */
  async idle(): Promise<void> {
    await this.running.ended();
  }

  /** What is known at once of a release that needs no other server; undefined when it must be connected to first. */
  async pinNow(orgId: number, config: ReleaseConfig): Promise<PinOutcome | undefined> {
    return config.mcp_servers.length > 0 ? undefined : pinRelease(orgId, config, this.upstreams);
  }

  /**
   * Materializes in the background. Why a release cannot be used is written to its row; what keeps us from finding that out,
   * such as a database that is away, is logged, and the next look tries again.
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

  private async resume(youngestMs: number): Promise<void> {
    const unfinished = await this.database.db
      .selectFrom('releases')
      .select(['org_id', 'agent_id', 'version'])
      .where('state', 'in', ['pending', 'materializing'])
      .where('created_at', '<=', new Date(Date.now() - youngestMs))
      .limit(100)
      .execute();
    for (const row of unfinished) this.materializeLater(row.org_id, row.agent_id, row.version);
  }
}
