import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Logger } from '../logger.ts';
import type { SessionLog } from '../session/log.ts';
import { type WatchableTurn, watchTurn } from '../turn/watch.ts';
import { deliverReplies, type GatewayIdentity, resumeAdmitted } from './replies.ts';

const pollMs = 1_000;

/** Sees to it that replies go out: at once for turns that end here, by looking for those of other or dead processes. */
export class ReplyWorker {
  private readonly parts: { database: Database; log: SessionLog; clock: Clock; logger: Logger; identity: GatewayIdentity };
  private readonly watching = new Set<AbortController>();
  private timer: NodeJS.Timeout | undefined;
  private looking: Promise<void> | undefined;
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
    await this.looking;
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
    this.looking ??= this.deliverAll().finally(() => {
      this.looking = undefined;
    });
  }

  private async deliverAll(): Promise<void> {
    const { database, clock, identity, logger } = this.parts;
    try {
      while (this.lookAgain) {
        this.lookAgain = false;
        await resumeAdmitted(database.db, identity, clock.now());
        if ((await deliverReplies(database.db, identity, clock.now())) > 0) this.lookAgain = true;
      }
    } catch (error) {
      logger.warn({ err: error }, 'could not deliver replies; will retry');
    }
  }
}
