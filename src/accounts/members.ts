import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
import { recordWithdrawal, withdrawInvitationsTo } from './invitations.ts';
import type { Role } from './principal.ts';

export interface Member {
  userId: string;
  email: string;
  name: string;
  role: Role;
  createdAt: Date;
}

/** In the order of their ids. `after` is the id of the last member on the previous page. */
export async function listMembers(db: Db, orgId: number, page: { limit: number; after: string | undefined }): Promise<Member[]> {
  let query = selectMembers(db).where('members.org_id', '=', orgId).orderBy('members.user_id').limit(page.limit);
  if (page.after !== undefined) query = query.where('members.user_id', '>', page.after);
  return query.execute();
}

export async function findMember(db: Db, orgId: number, userId: string): Promise<Member | undefined> {
  return selectMembers(db).where('members.org_id', '=', orgId).where('members.user_id', '=', userId).executeTakeFirst();
}

/** The orgs that a person belongs to, the oldest membership first. */
export async function membershipsOf(db: Db, userId: string): Promise<{ orgId: number; role: Role }[]> {
  return db
    .selectFrom('members')
    .select(['org_id as orgId', 'role'])
    .where('user_id', '=', userId)
    .orderBy('created_at')
    .orderBy('org_id')
    .execute();
}

/**
 * Throws when the caller may not take `role` away. `own` is the caller's role, undefined for an API key. It is called with
 * both as they are once the members are locked.
 */
type AssertMayRevoke = (role: Role, own: Role | undefined) => void;

/** Undefined when the org has no such member. */
export async function changeRole(
  transaction: Db,
  actor: Actor,
  userId: string,
  role: Role,
  assertMayRevoke: AssertMayRevoke,
): Promise<Member | undefined> {
  const { member, own } = await lockMembers(transaction, actor, userId);
  if (member === undefined) return undefined;
  assertMayRevoke(member.role, own);
  if (member.role === role) return member;
  await assertOwnerRemains(transaction, actor.orgId, member);
  await transaction.updateTable('members').set({ role }).where('org_id', '=', actor.orgId).where('user_id', '=', userId).execute();
  await recordAudit(transaction, actor, {
    action: 'member.role_changed',
    subjectType: 'member',
    subjectId: userId,
    metadata: { email: member.email, role, previous_role: member.role },
  });
  return { ...member, role };
}

/** False when the org has no such member. `highestRole` is the highest that the caller may take away. */
export async function removeMember(
  transaction: Db,
  actor: Actor,
  userId: string,
  { highestRole, assertMayRevoke }: { highestRole: Role; assertMayRevoke: AssertMayRevoke },
): Promise<boolean> {
  // Invitations, then the user, then members: the order in which `acceptInvitation` locks them, so that the two cannot deadlock.
  // With another open invitation the removed member could join again at once. Those that the caller may not withdraw stay.
  const invitations = await withdrawInvitationsTo(transaction, actor, userId, highestRole);
  // Waits for the same person's joining of another org, which keeps the account from being deleted below.
  await transaction.selectFrom('users').select('id').where('id', '=', userId).forUpdate().execute();
  const { member, own } = await lockMembers(transaction, actor, userId);
  if (member === undefined) return false;
  assertMayRevoke(member.role, own);
  await assertOwnerRemains(transaction, actor.orgId, member);
  await transaction.deleteFrom('members').where('org_id', '=', actor.orgId).where('user_id', '=', userId).execute();
  // An account without any org is deleted too: so a person who forgot the password can be removed and invited again.
  const elsewhere = transaction.selectFrom('members').select('user_id').where('user_id', '=', userId);
  await transaction
    .deleteFrom('users')
    .where('id', '=', userId)
    .where(({ not, exists }) => not(exists(elsewhere)))
    .execute();
  await recordAudit(transaction, actor, {
    action: 'member.removed',
    subjectType: 'member',
    subjectId: userId,
    metadata: { email: member.email, role: member.role },
  });
  for (const invitation of invitations) await recordWithdrawal(transaction, actor, invitation);
  return true;
}

/**
 * Locks all members of the org until the commit. Otherwise the last two owners could be removed at the same moment, and a
 * member whose role is being taken away could still take that of another.
 */
async function lockMembers(
  transaction: Db,
  { orgId, userId: actingId }: Actor,
  userId: string,
): Promise<{ member: Member | undefined; own: Role | undefined }> {
  const members = transaction.selectFrom('members').select(['user_id', 'role']).where('org_id', '=', orgId);
  const locked = await members.orderBy('user_id').forUpdate().execute();
  return { member: await findMember(transaction, orgId, userId), own: locked.find((row) => row.user_id === actingId)?.role };
}

/** Throws when the member, who is to lose the present role, is the org's last owner. */
async function assertOwnerRemains(transaction: Db, orgId: number, member: Member): Promise<void> {
  if (member.role !== 'owner') return;
  const other = await transaction
    .selectFrom('members')
    .select('user_id')
    .where('org_id', '=', orgId)
    .where('role', '=', 'owner')
    .where('user_id', '!=', member.userId)
    .executeTakeFirst();
  if (other === undefined) throw new ServiceError('conflict', 'The last owner of an organization cannot be removed or given another role');
}

function selectMembers(db: Db) {
  return db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select(['members.user_id as userId', 'users.email', 'users.name', 'members.role', 'members.created_at as createdAt']);
}
