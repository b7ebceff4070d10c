import type { Selectable } from 'kysely';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import type { ReleaseState, Schema } from '../database/schema.ts';
import { notFound, ServiceError } from '../errors.ts';
import type { PinnedTool, ReleaseConfig } from '../release-config.ts';

export interface Release {
  agentId: number;
  version: number;
  state: ReleaseState;
  /** Which step of its materialization failed, and why. */
  error: string | undefined;
  config: ReleaseConfig;
  pinnedTools: PinnedTool[];
  createdAt: Date;
}

/** How materializing ended. */
export type PinOutcome = { state: 'materialized'; pinnedTools: PinnedTool[] } | { state: 'failed'; error: string };

/** The release, if turns can run on it. One that is being materialized will be usable soon; one that failed never is. */
export function materialized(release: Release | undefined): Release {
  if (release === undefined) throw notFound();
  if (release.state !== 'materialized')
    throw new ServiceError('conflict', `Release ${release.version} is not materialized.`, { willPass: release.state !== 'failed' });
  return release;
}

/** Adds the agent's next version, with its outcome where that is known already. Undefined when the org has no such agent. */
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

/** Newest first. `before`: the version that the page before ended with. */
export async function listReleases(
  db: Db,
  orgId: number,
  agentId: number,
  page: { limit: number; before: number | undefined },
): Promise<Release[]> {
  let query = db.selectFrom('releases').selectAll().where('org_id', '=', orgId).where('agent_id', '=', agentId);
  if (page.before !== undefined) query = query.where('version', '<', page.before);
  return (await query.orderBy('version', 'desc').limit(page.limit).execute()).map(releaseFrom);
}

/**
 * New sessions get this version from now on; also the way back to an earlier one. Undefined when there is none such.
 * Whatever made a release fail may have been mended since: with `retry` it is to be materialized again.
 */
export async function activateRelease(
  transaction: Db,
  actor: Actor,
  agentId: number,
  version: number,
  options: { retry: boolean },
): Promise<Release | undefined> {
  // Ahead of the release: of two who try a failed one again, the second sees what the first has begun.
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
    const again = { state: 'pending', error: null } as const;
    await transaction.updateTable('releases').set(again).where('agent_id', '=', agentId).where('version', '=', version).execute();
    Object.assign(row, again);
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

/** While its row is held nobody else adds or activates a release: versions have no gaps and no duplicates. */
function lockAgent(transaction: Db, orgId: number, agentId: number) {
  return transaction
    .selectFrom('agents')
    .select(['slug', 'active_version'])
    .where('org_id', '=', orgId)
    .where('id', '=', agentId)
    .where('deleted_at', 'is', null)
    .forUpdate()
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
