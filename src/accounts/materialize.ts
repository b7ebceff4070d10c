import { type RawBuilder, sql } from 'kysely';
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
/** Each holds connections to servers that may take 20 s to answer. */
const most = { atOnce: 16, ofAnOrganization: 4 };
/** What one look finds: more than can run at once of the organizations that have room. */
const lookLength = 100;

/**
 * Materializes the releases that are created in this process, and those that another process left unfinished. Those for which there is no
 * room wait in the database, and are looked for when another is done.
 */
export class Materializer {
  private readonly database: Database;
  private readonly directory: Directory;
  private readonly upstreams: Upstreams;
  private readonly logger: Logger;
  /** Named `<org id>/<agent id>/<version>`. */
  private readonly running = new SharedWork<boolean>();
  private readonly looking = new SharedWork<void>();
  private readonly closing = new AbortController();
  private timer: NodeJS.Timeout | undefined;

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
      const isOld = sql`created_at <= ${new Date(Date.now() - minAgeMs)}`;
      this.look('unfinished', sql`state in ('pending', 'materializing') and ${isOld}`);
    };
    look(0);
  }

  /** Cancels what waits for an MCP server: another process, or the next start, materializes it. */
  async close(): Promise<void> {
    clearTimeout(this.timer);
    this.closing.abort();
    await this.idle();
  }

  /** Resolves when nothing is being materialized in this process. */
  async idle(): Promise<void> {
    while (this.running.size + this.looking.size > 0) {
      await this.running.ended();
      await this.looking.ended();
    }
  }

  /** The outcome of a release without MCP servers, which needs no connection; undefined for any other. */
  async pinNow(orgId: number, config: ReleaseConfig): Promise<PinOutcome | undefined> {
    return config.mcp_servers.length > 0 ? undefined : pinRelease(orgId, config, this.upstreams, this.closing.signal);
  }

  /**
   * Materializes in the background, now or when there is room. A reason why the release cannot be used is written to its row. An error
   * on our side, such as a database that is unreachable, is logged, and the next look tries again.
   */
  materializeLater(orgId: number, agentId: number, version: number): void {
    if (this.closing.signal.aborted || !this.hasRoom(orgId)) return;
    const name = `${orgId}/${agentId}/${version}`;
    void this.running
      .run(name, () =>
        this.run(orgId, agentId, version).catch((error: unknown) => {
          this.logger.warn({ err: error, agent_id: agentId, version }, 'could not materialize a release');
          return false;
        }),
      )
      .then((isDone) => {
        // Only then: a release that is still pending would be found again at once. Those that are begun may be another process's.
        if (isDone) this.look(name, sql`state = 'pending'`);
      });
  }

  private hasRoom(orgId: number): boolean {
    const ofOrganization = this.running.names().filter((name) => name.startsWith(`${orgId}/`)).length;
    return this.running.size < most.atOnce && ofOrganization < most.ofAnOrganization;
  }

  /** Whether its outcome was written. */
  private async run(orgId: number, agentId: number, version: number): Promise<boolean> {
    const release = await this.directory.release(orgId, agentId, version);
    if (release === undefined || release.state === 'materialized' || release.state === 'failed') return false;
    await this.update(orgId, agentId, version, { state: 'materializing' });
    const outcome = await pinRelease(orgId, release.config, this.upstreams, this.closing.signal);
    if (this.closing.signal.aborted) return false;
    await this.update(orgId, agentId, version, outcomeColumns(outcome, new Date()));
    return true;
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

  private look(name: string, isMeant: RawBuilder<unknown>): void {
    void this.looking.run(name, () =>
      this.resume(isMeant).catch((error: unknown) => this.logger.warn({ err: error }, 'could not look for unfinished releases')),
    );
  }

  /** Organizations take turns. Within one, those that were begun come last: if they fail for a reason of ours, they hold up no others. */
  private async resume(isMeant: RawBuilder<unknown>): Promise<void> {
    const { rows } = await sql<{ org_id: number; agent_id: number; version: number }>`
      select org_id, agent_id, version from (
        select org_id, agent_id, version, created_at,
          row_number() over (partition by org_id order by state = 'pending' desc, created_at) as turn
        from releases where ${isMeant}) as unfinished
      order by turn, created_at limit ${lookLength}`.execute(this.database.db);
    for (const row of rows) this.materializeLater(row.org_id, row.agent_id, row.version);
  }
}
