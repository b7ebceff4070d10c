import { type Selectable, sql } from 'kysely';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import type { ReleaseState, Schema } from '../database/schema.ts';
import { notFound, ServiceError } from '../errors.ts';
import type { PinnedTool, ReleaseConfig } from '../release-config.ts';

export interface Release {
  agentId: number;
  version: number;
  state: ReleaseState;
  /** Which step of materializing failed, and why. */
  error: string | undefined;
  config: ReleaseConfig;
  pinnedTools: PinnedTool[];
  createdAt: Date;
}

/** Where a page of the list ends: 200 releases of a megabyte each blocked the server for four seconds and took two gigabytes of memory. */
const pageBytes = 2 ** 20;

/** How materializing ended. */
export type PinOutcome = { state: 'materialized'; pinnedTools: PinnedTool[] } | { state: 'failed'; error: string };

/** The release, if turns can run on it. The error says whether to try again: a release that is being materialized will be usable soon. */
export function requireMaterialized(release: Release | undefined): Release {
  if (release === undefined) throw notFound();
  if (release.state !== 'materialized')
    throw new ServiceError('conflict', `Release ${release.version} is not materialized.`, { willPass: release.state !== 'failed' });
  return release;
}

/** Adds the agent's next version, materialized already if the `outcome` is known. Undefined when the org has no such agent. */
export async function createRelease(
  transaction: Db,
  actor: Actor,
  agentId: number,
  config: ReleaseConfig,
  outcome: PinOutcome | undefined,
): Promise<Release | undefined> {
  const agent = await lockAgent(transaction, actor.orgId, agentId);
  if (agent === undefined) return undefined;
  const newest = await transaction
    .selectFrom('releases')
    .select('version')
    .where('agent_id', '=', agentId)
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst();
  const row = await transaction
    .insertInto('releases')
    .values({
      org_id: actor.orgId,
      agent_id: agentId,
      version: (newest?.version ?? 0) + 1,
      config: JSON.stringify(config),
      created_at: actor.at,
      ...(outcome === undefined ? { state: 'pending' as const } : outcomeColumns(outcome, actor.at)),
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  await recordAudit(transaction, actor, {
    action: 'release.created',
    subjectType: 'release',
    subjectId: `${agent.slug}/${row.version}`,
    metadata: { agent: agent.slug, version: row.version, provider: config.model.provider, model: config.model.name },
  });
  return releaseFrom(row);
}

/** Newest first, fewer than `limit` where they are large. `before` is the version of the last release on the previous page. */
export async function listReleases(
  db: Db,
  orgId: number,
  agentId: number,
  { limit, before = 2 ** 31 - 1 }: { limit: number; before: number | undefined },
): Promise<{ releases: Release[]; hasMore: boolean }> {
  const { rows } = await sql<Selectable<Schema['releases']> & { found: number }>`
    select r.*, page.found from (
      select version, count(*) over ()::integer as found, sum(length) over (order by version desc) - length as length_before from (
        select version, ${storedLength('config')} + ${storedLength('pinned_tools')} as length from releases
        where org_id = ${orgId} and agent_id = ${agentId} and version < ${before} order by version desc limit ${limit + 1}) as newest
    ) as page join releases r on r.agent_id = ${agentId} and r.version = page.version
    where page.length_before < ${pageBytes} order by r.version desc`.execute(db);
  const releases = rows.slice(0, limit).map(releaseFrom);
  return { releases, hasMore: (rows[0]?.found ?? 0) > releases.length };
}

/** Estimates the length of a column without reading it: a compressed one may be up to twenty times as long as what is stored. */
function storedLength(column: 'config' | 'pinned_tools') {
  return sql`pg_column_size(${sql.ref(column)}) * case when pg_column_compression(${sql.ref(column)}) is null then 1 else 20 end`;
}

/**
 * Makes this the version that new sessions get; an earlier one, to roll back. Undefined when the org has no such release.
 * With `retry` a failed release becomes pending, to be materialized again: what made it fail may have been fixed.
 */
export async function activateRelease(
  transaction: Db,
  actor: Actor,
  agentId: number,
  version: number,
  options: { retry: boolean },
): Promise<Release | undefined> {
  // Locked before the release is read: of two concurrent retries of a failed one, the second sees that it is pending.
  const agent = await lockAgent(transaction, actor.orgId, agentId);
  if (agent === undefined) return undefined;
  const row = await transaction
    .selectFrom('releases')
    .selectAll()
    .where('org_id', '=', actor.orgId)
    .where('agent_id', '=', agentId)
    .where('version', '=', version)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  if (row.state === 'failed' && options.retry) {
    const pending = { state: 'pending', error: null } as const;
    await transaction.updateTable('releases').set(pending).where('agent_id', '=', agentId).where('version', '=', version).execute();
    Object.assign(row, pending);
  }
  await transaction.updateTable('agents').set({ active_version: version, updated_at: actor.at }).where('id', '=', agentId).execute();
  await recordAudit(transaction, actor, {
    action: 'release.activated',
    subjectType: 'release',
    subjectId: `${agent.slug}/${version}`,
    metadata: { agent: agent.slug, version, previous_version: agent.active_version },
  });
  return releaseFrom(row);
}

/** Until the commit nobody else adds or activates a release of the agent: versions have no gaps and no duplicates. */
function lockAgent(transaction: Db, orgId: number, agentId: number) {
  return transaction
    .selectFrom('agents')
    .select(['slug', 'active_version'])
    .where('org_id', '=', orgId)
    .where('id', '=', agentId)
    .where('deleted_at', 'is', null)
    .forNoKeyUpdate()
    .executeTakeFirst();
}

export function outcomeColumns(outcome: PinOutcome, at: Date) {
  return outcome.state === 'failed'
    ? { state: outcome.state, error: outcome.error }
    : { state: outcome.state, error: null, pinned_tools: JSON.stringify(outcome.pinnedTools), materialized_at: at };
}

export function releaseFrom(row: Selectable<Schema['releases']>): Release {
  return {
    agentId: row.agent_id,
    version: row.version,
    state: row.state,
    error: row.error ?? undefined,
    config: row.config,
    pinnedTools: row.pinned_tools,
    createdAt: row.created_at,
  };
}
