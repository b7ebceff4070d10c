import type { InferResult } from 'kysely';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import type { ReleaseState } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { assertSlug } from './slugs.ts';

export interface Agent {
  id: number;
  orgId: number;
  slug: string;
  name: string;
  description: string;
  activeVersion: number | undefined;
  /** State of the active release; turns run only if it is `materialized`. */
  activeState: ReleaseState | undefined;
  createdAt: Date;
  updatedAt: Date;
}

export async function createAgent(
  transaction: Db,
  actor: Actor,
  input: { slug: string; name: string; description: string; isDefault: boolean },
): Promise<Agent> {
  assertSlug(input.slug);
  const row = await transaction
    .insertInto('agents')
    .values({
      org_id: actor.orgId,
      slug: input.slug,
      name: input.name,
      description: input.description,
      created_at: actor.at,
      updated_at: actor.at,
    })
    .onConflict((conflict) => conflict.columns(['org_id', 'slug']).where('deleted_at', 'is', null).doNothing())
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) throw new ServiceError('conflict', `slug: an agent "${input.slug}" already exists`);
  if (input.isDefault) await makeDefault(transaction, actor, row.id);
  await recordAudit(transaction, actor, {
    action: 'agent.created',
    subjectType: 'agent',
    subjectId: row.id,
    metadata: { slug: row.slug, name: row.name, default: input.isDefault },
  });
  return agentFrom({ ...row, active_state: null });
}

/** Oldest first. `after` is the id of the last agent on the previous page. */
export async function listAgents(db: Db, orgId: number, page: { limit: number; after: number | undefined }): Promise<Agent[]> {
  let query = selectAgents(db, orgId);
  if (page.after !== undefined) query = query.where('agents.id', '>', page.after);
  return (await query.orderBy('agents.id').limit(page.limit).execute()).map(agentFrom);
}

/** An undefined field is left unchanged. Returns the agent as it is then; undefined when the org has no such agent. */
export async function updateAgent(
  transaction: Db,
  actor: Actor,
  agentId: number,
  changes: { name: string | undefined; description: string | undefined; isDefault: boolean | undefined },
): Promise<Agent | undefined> {
  const row = await transaction
    .updateTable('agents')
    .set({ name: changes.name, description: changes.description, updated_at: actor.at })
    .where('org_id', '=', actor.orgId)
    .where('id', '=', agentId)
    .where('deleted_at', 'is', null)
    .returning(['id', 'slug'])
    .executeTakeFirst();
  if (row === undefined) return undefined;
  if (changes.isDefault === true) await makeDefault(transaction, actor, row.id);
  if (changes.isDefault === false) await clearDefault(transaction, actor, row.id);
  await recordAudit(transaction, actor, {
    action: 'agent.updated',
    subjectType: 'agent',
    subjectId: row.id,
    metadata: { slug: row.slug, changes: { name: changes.name, description: changes.description, default: changes.isDefault } },
  });
  return agentFrom(await selectAgents(transaction, actor.orgId).where('agents.id', '=', row.id).executeTakeFirstOrThrow());
}

/** Marks the agent as deleted, so that no route finds it; its sessions are kept. False when the org has no such agent. */
export async function deleteAgent(transaction: Db, actor: Actor, agentId: number): Promise<boolean> {
  // A turn that is about to pause keeps the agent from being locked like this; see `advance_turn`.
  await transaction.selectFrom('agents').select('id').where('org_id', '=', actor.orgId).where('id', '=', agentId).forUpdate().execute();
  const row = await transaction
    .updateTable('agents')
    .set({ deleted_at: actor.at })
    .where('org_id', '=', actor.orgId)
    .where('id', '=', agentId)
    .where('deleted_at', 'is', null)
    .returning(['id', 'slug'])
    .executeTakeFirst();
  if (row === undefined) return false;
  await clearDefault(transaction, actor, row.id);
  await recordAudit(transaction, actor, {
    action: 'agent.deleted',
    subjectType: 'agent',
    subjectId: row.id,
    metadata: { slug: row.slug },
  });
  return true;
}

/** The agents of an org, each with the state of its active release. */
export function selectAgents(db: Db, orgId: number) {
  return db
    .selectFrom('agents')
    .leftJoin('releases', (join) =>
      join.onRef('releases.agent_id', '=', 'agents.id').onRef('releases.version', '=', 'agents.active_version'),
    )
    .selectAll('agents')
    .select('releases.state as active_state')
    .where('agents.org_id', '=', orgId)
    .where('agents.deleted_at', 'is', null);
}

export function agentFrom(row: InferResult<ReturnType<typeof selectAgents>>[number]): Agent {
  return {
    id: row.id,
    orgId: row.org_id,
    slug: row.slug,
    name: row.name,
    description: row.description,
    activeVersion: row.active_version ?? undefined,
    activeState: row.active_state ?? undefined,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

async function makeDefault(transaction: Db, actor: Actor, agentId: number): Promise<void> {
  await transaction.updateTable('organizations').set({ default_agent_id: agentId }).where('id', '=', actor.orgId).execute();
}

/** Leaves the org without a default agent, if this one is it. */
async function clearDefault(transaction: Db, actor: Actor, agentId: number): Promise<void> {
  await transaction
    .updateTable('organizations')
    .set({ default_agent_id: null })
    .where('id', '=', actor.orgId)
    .where('default_agent_id', '=', agentId)
    .execute();
}
