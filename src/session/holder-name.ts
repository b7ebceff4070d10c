import { sql } from 'kysely';
import type { Database } from '../database/database.ts';
import { SharedWork } from '../work/shared-work.ts';

/**
 * The name under which this process holds turns. It changes after a write whose answer was lost: that write may still reach the
 * database, and must be refused there once the turn has been recovered, even if this process recovers it.
 */
export class HolderName {
  private readonly database: Database;
  private readonly processId: string;
  private name: string;
  private changes = 0;
  private mustChange = false;
  private readonly changing = new SharedWork<void>();

  constructor(database: Database, processId: string) {
    this.database = database;
    this.processId = processId;
    this.name = processId;
  }

  async current(): Promise<string> {
    if (this.mustChange) await this.changing.run('change', () => this.change());
    return this.name;
  }

  /** The answer to a write was lost. With the embedded engine no statement is still under way when its call fails. */
  giveUp(): void {
    if (this.database.engine === 'postgres') this.mustChange = true;
  }

  private async change(): Promise<void> {
    const next = `${this.processId}.${this.changes + 1}`;
    await this.database.urgently(sql`update turns set process_id = ${next} where process_id = ${this.name} and state = 'running'`);
    this.name = next;
    this.changes += 1;
    this.mustChange = false;
  }
}

/** Whether the process has, or had, this name. */
export function isNameOf(processId: string, name: string | null | undefined): boolean {
  return name === processId || (name?.startsWith(`${processId}.`) ?? false);
}
