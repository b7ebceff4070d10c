import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { SessionLog } from '../session/log.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type WatchableTurn, watchTurn } from '../turn/watch.ts';
import { SharedWork } from '../work/shared-work.ts';
import { deliverReply, findAnswered, findAnsweredIn, findUnmarked, type GatewayIdentity, markAdmitted, type OpenEvent } from './replies.ts';

const pollMs = 1_000;
const maxShareOfPolls = 0.05;
const lookFailed = 'could not look for replies; will retry';

/**
 * Sends the replies to submitted events: at once when a turn ends in this process, and by polling for turns of processes that died and
 * for those that went on after an approval.
 */
export class ReplyWorker {
  private readonly parts: { database: Database; log: SessionLog; clock: Clock; logger: Logger; identity: GatewayIdentity };
  private readonly watching = new Set<AbortController>();
  private timer: NodeJS.Timeout | undefined;
  private readonly polling = new SharedWork<number>();
  private readonly looking = new SharedWork<void>();
  private stopped = false;

  constructor(parts: ReplyWorker['parts']) {
    this.parts = parts;
  }

  start(): void {
    this.pollIn(pollMs);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    for (const watch of this.watching) watch.abort();
    await this.polling.ended();
    await this.looking.ended();
  }

  async lookWhenEnded(turn: WatchableTurn): Promise<void> {
    const watch = new AbortController();
    this.watching.add(watch);
    try {
      for await (const _updates of watchTurn(this.parts.log, turn, watch.signal));
    } catch (error) {
      this.parts.logger.debug({ err: error }, 'a gateway turn was not watched to its end');
    } finally {
      this.watching.delete(watch);
    }
    if (!watch.signal.aborted) await this.looking.run(turn.turnId, () => this.lookIn(turn.sessionId));
  }

  /** In the whole session: an earlier turn may have gone on after an approval, and its reply comes first. */
  private async lookIn(sessionId: string): Promise<void> {
    const { database, clock, identity, logger } = this.parts;
    try {
      await this.workThrough(
        (failed) => findAnsweredIn(database.db, sessionId, failed),
        (event) => deliverReply(database.db, event, identity, clock.now()),
      );
    } catch (error) {
      logger.warn({ err: error }, lookFailed);
    }
  }

  /** Each poll goes through all turns that wait for an approval: where it takes long because they are many, the next one comes later. */
  private pollIn(milliseconds: number): void {
    this.timer = setTimeout(async () => {
      const tookMs = await this.polling.run('poll', () => this.deliverAll());
      if (!this.stopped) this.pollIn(Math.max(pollMs, tookMs / maxShareOfPolls));
    }, milliseconds).unref();
  }

  /** Returns how long it took to find out that nothing is left. */
  private async deliverAll(): Promise<number> {
    const { database, clock, identity, logger } = this.parts;
    const { db } = database;
    try {
      const unmarkedMs = await this.workThrough(
        (failed) => findUnmarked(db, failed),
        (event) => markAdmitted(db, event, identity, clock.now()),
      );
      const answeredMs = await this.workThrough(
        (failed) => findAnswered(db, failed),
        (event) => deliverReply(db, event, identity, clock.now()),
      );
      return unmarkedMs + answeredMs;
    } catch (error) {
      logger.warn({ err: error }, lookFailed);
      return 0;
    }
  }

  /**
   * One at a time, and past those that failed, so that they hold up no others. They are tried again at the next look. Returns how long
   * the last `find` took, which found none.
   */
  private async workThrough(find: (failed: number) => Promise<OpenEvent[]>, work: (event: OpenEvent) => Promise<void>): Promise<number> {
    let failed = 0;
    for (;;) {
      const begun = performance.now();
      const events = await find(failed);
      if (events.length === 0) return performance.now() - begun;
      for (const event of events) {
        try {
          await work(event);
        } catch (error) {
          failed += 1;
          this.parts.logger.warn({ err: error, org_id: event.org_id, event_id: event.event_id }, 'could not deliver a reply; will retry');
        }
      }
    }
  }
}
