import type { Config } from '../config.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Database } from './database.ts';

/** Loads only the engine that is used. */
export async function openDatabase(config: Config, logger?: Logger): Promise<Database> {
  if (config.DATABASE_URL === undefined) return (await import('./pglite.ts')).openPGlite(config.PARLEY_DATA_DIR, logger);
  return (await import('./postgres.ts')).openPostgres(config.DATABASE_URL, config.PARLEY_DATABASE_POOL);
}
