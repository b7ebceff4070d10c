import type { Database } from '../database/database.ts';
import type { ReleaseConfig } from '../release-config.ts';
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
  private readonly running = new Map<string, Promise<void>>();
  private timer: NodeJS.Timeout | undefined;

  constructor(database: Database, directory: Directory, upstreams: Upstreams) {
    this.database = database;
    this.directory = directory;
    this.upstreams = upstreams;
  }

  /** Looks now, and every half minute, for releases that nobody finished. Materializing one twice is harmless. */
  start(): void {
    const look = (youngestMs: number) => {
      this.timer = setTimeout(look, lookEveryMs, graceMs).unref();
      // The database may be away; the next look is soon.
      this.resume(youngestMs).catch(() => {});
    };
    look(0);
  }

  async close(): Promise<void> {
    clearTimeout(this.timer);
    await this.idle();
  }

  /** Ends when nothing is being materialized here. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.running.values());
  }

  /** What is known at once of a release that needs no other server; undefined when it must be connected to first. */
  async pinNow(orgId: number, config: ReleaseConfig): Promise<PinOutcome | undefined> {
    return config.mcp_servers.length > 0 ? undefined : pinRelease(orgId, config, this.upstreams);
  }

  /** Materializes after the answer: a failure to do so is taken up by the next look. */
  materializeLater(orgId: number, agentId: number, version: number): void {
    this.materialize(orgId, agentId, version).catch(() => {});
  }

  /** Ends when the release is materialized or failed; the reason is in its row, not thrown. */
  materialize(orgId: number, agentId: number, version: number): Promise<void> {
    const name = `${agentId}/${version}`;
    const running = this.running.get(name) ?? this.run(orgId, agentId, version).finally(() => this.running.delete(name));
    this.running.set(name, running);
    return running;
  }

  private async run(orgId: number, agentId: number, version: number): Promise<void> {
    const release = await this.directory.release(orgId, agentId, version);
    if (release === undefined || release.state === 'materialized' || release.state === 'failed') return;
    await this.update(orgId, agentId, version, { state: 'materializing' });
    const outcome = await pinRelease(orgId, release.config, this.upstreams);
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
    await Promise.allSettled(unfinished.map((row) => this.materialize(row.org_id, row.agent_id, row.version)));
  }
}
