import type { Selectable } from 'kysely';
import type { Db } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import type { Organization } from './principal.ts';
import { assertOrganizationSlug } from './slugs.ts';

export const organizationColumns = [
  'organizations.id',
  'organizations.slug',
  'organizations.name',
  'organizations.status',
  'organizations.default_agent_id',
  'organizations.transcripts_access',
] as const;

type OrganizationRow = Selectable<Schema['organizations']>;

export function organizationFrom(
  row: Pick<OrganizationRow, 'id' | 'slug' | 'name' | 'status' | 'default_agent_id' | 'transcripts_access'>,
): Organization {
  return {
    id: row.id,
    slug: row.slug,
    name: row.name,
    status: row.status,
    defaultAgentId: row.default_agent_id ?? undefined,
    transcriptsAccess: row.transcripts_access,
  };
}

/** Creates an org with its budget row, which every turn locks. */
export async function createOrganization(transaction: Db, input: { slug: string; name: string; at: Date }): Promise<Organization> {
  assertOrganizationSlug(input.slug);
  const row = await transaction
    .insertInto('organizations')
    .values({ slug: input.slug, name: input.name, created_at: input.at, updated_at: input.at })
    .onConflict((conflict) => conflict.column('slug').doNothing())
    .returning(organizationColumns)
    .executeTakeFirst();
  if (row === undefined) throw new ServiceError('conflict', `slug: an organization "${input.slug}" already exists`);
  await transaction.insertInto('budgets').values({ org_id: row.id, updated_at: input.at }).execute();
  return organizationFrom(row);
}
