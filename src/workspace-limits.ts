import type { Config } from './config.ts';

/** The limits of a workspace, for tools and uploads alike. */
export const workspaceLimits = { fileBytes: 10 * 1024 * 1024, totalBytes: 64 * 1024 * 1024, files: 2_000 };

/** The limit of all workspaces of an organization together; undefined if there is none. */
export function maxFileBytes({ PARLEY_MAX_FILES_MIB: limit }: Pick<Config, 'PARLEY_MAX_FILES_MIB'>): number | undefined {
  return limit === 0 ? undefined : limit * 1024 * 1024;
}
