import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { SessionLog } from '../session/log.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type WatchableTurn, watchTurn } from '../turn/watch.ts';
import { SharedWork } from '../work/shared-work.ts';
import { deliverReply, findAnswered, findUnmarked, type GatewayIdentity, markAdmitted, type OpenEvent } from './replies.ts';

const pollMs = 1_000;

/** Sends the replies to submitted events: at once when a turn ends in this process, and by polling for turns of processes that died. */
export class ReplyWorker {
  private readonly parts: { database: Database; log: SessionLog; clock: Clock; logger: Logger; identity: GatewayIdentity };
  private readonly watching = new Set<AbortController>();
  private timer: NodeJS.Timeout | undefined;
  private readonly looking = new SharedWork<void>();
  private lookAgain = false;

  constructor(parts: ReplyWorker['parts']) {
    this.parts = parts;
  }

  start(): void {
    this.timer = setInterval(() => this.look(), pollMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    for (const watch of this.watching) watch.abort();
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
    if (!watch.signal.aborted) this.look();
  }

  private look(): void {
    this.lookAgain = true;
    void this.looking.run('look', () => this.deliverAll());
  }

  private async deliverAll(): Promise<void> {
    const { database, clock, identity, logger } = this.parts;
    const { db } = database;
    try {
      while (this.lookAgain) {
        this.lookAgain = false;
        await this.workThrough(
          (failed) => findUnmarked(db, failed),
          (event) => markAdmitted(db, event, identity, clock.now()),
        );
        await this.workThrough(
          (failed) => findAnswered(db, failed),
          (event) => deliverReply(db, event, identity, clock.now()),
        );
      }
    } catch (error) {
      logger.warn({ err: error }, 'could not look for replies; will retry');
    }
  }

  /** One at a time, and past those that failed, so that they hold up no others. They are tried again at the next look. */
  private async workThrough(find: (failed: number) => Promise<OpenEvent[]>, work: (event: OpenEvent) => Promise<void>): Promise<void> {
    let failed = 0;
    for (let events = await find(failed); events.length > 0; events = await find(failed)) {
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
