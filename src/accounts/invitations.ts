import { randomBytes } from 'node:crypto';
import type { ExpressionBuilder, Selectable } from 'kysely';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { hashOfSecret } from './api-keys.ts';
import { type Role, rolesFromHighest } from './principal.ts';

export interface Invitation {
  id: number;
  email: string | undefined;
  role: Role;
  createdAt: Date;
  expiresAt: Date;
}

const lifetimeMs = 7 * 24 * 3_600_000;

/**
 * The token is returned here and never again; whoever has it can join: with any address if the invitation names none.
 * `highestRole` is the highest that the inviter may grant.
 */
export async function invite(
  transaction: Db,
  actor: Actor,
  input: { email: string | undefined; role: Role; highestRole: Role },
): Promise<{ invitation: Invitation; token: string }> {
  const email = input.email?.toLowerCase();
  if (email !== undefined && (await isMember(transaction, actor.orgId, email))) {
    throw new ServiceError('conflict', `email: ${email} is already a member`);
  }
  const token = `inv_${randomBytes(24).toString('base64url')}`;
  const row = await transaction
    .insertInto('invitations')
    .values({
      org_id: actor.orgId,
      email: email ?? null,
      role: input.role,
      highest_role: input.highestRole,
      token_hash: hashOfSecret(token),
      created_at: actor.at,
      expires_at: new Date(actor.at.getTime() + lifetimeMs),
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  await recordAudit(transaction, actor, {
    action: 'member.invited',
    subjectType: 'invitation',
    subjectId: row.id,
    metadata: { email: row.email, role: row.role },
  });
  return { invitation: invitationFrom(row), token };
}

/** Open invitations, newest first. `before` is the id of the last one on the previous page. */
export async function listInvitations(
  db: Db,
  orgId: number,
  now: Date,
  page: { limit: number; before: number | undefined },
): Promise<Invitation[]> {
  let query = selectOpenInvitations(db, now).where('org_id', '=', orgId).orderBy('id', 'desc').limit(page.limit);
  if (page.before !== undefined) query = query.where('id', '<', page.before);
  return (await query.execute()).map(invitationFrom);
}

/** Undefined when the org has no such open invitation. */
export async function findInvitation(db: Db, orgId: number, now: Date, id: number): Promise<Invitation | undefined> {
  const row = await selectOpenInvitations(db, now).where('org_id', '=', orgId).where('id', '=', id).executeTakeFirst();
  return row && invitationFrom(row);
}

/** It can be given no role above this one: whoever made it has its token, and could not grant more. Undefined when the org has none. */
export async function highestRoleOf(db: Db, orgId: number, id: number): Promise<Role | undefined> {
  const query = db.selectFrom('invitations').select(['role', 'highest_role']).where('org_id', '=', orgId).where('id', '=', id);
  const row = await query.executeTakeFirst();
  return row && (row.highest_role ?? row.role);
}

/** Undefined when the org has no such open invitation. Its token stays the same. `assertMayRevoke` is called with its present role. */
export async function changeInvitedRole(
  transaction: Db,
  actor: Actor,
  id: number,
  role: Role,
  assertMayRevoke: (role: Role) => void,
): Promise<Invitation | undefined> {
  const before = await selectOpenInvitations(transaction, actor.at)
    .where('org_id', '=', actor.orgId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  if (before === undefined) return undefined;
  assertMayRevoke(before.role);
  if (before.role === role) return invitationFrom(before);
  if (rolesFromHighest.indexOf(role) < rolesFromHighest.indexOf(before.highest_role ?? before.role))
    throw new ServiceError(
      'conflict',
      `role: whoever made this invitation has its link and could not grant the role ${role}: make another`,
    );
  await transaction.updateTable('invitations').set({ role }).where('id', '=', id).execute();
  await recordAudit(transaction, actor, {
    action: 'member.role_changed',
    subjectType: 'invitation',
    subjectId: id,
    metadata: { email: before.email, role, previous_role: before.role },
  });
  return invitationFrom({ ...before, role });
}

/** False when the org has no such open invitation. `assertMayRevoke` is called with its role. */
export async function withdrawInvitation(
  transaction: Db,
  actor: Actor,
  id: number,
  assertMayRevoke: (role: Role) => void,
): Promise<boolean> {
  const row = await withdrawOpen(transaction, actor).where('id', '=', id).executeTakeFirst();
  if (row === undefined) return false;
  assertMayRevoke(row.role);
  await recordWithdrawal(transaction, actor, row);
  return true;
}

/**
 * Withdraws the open invitations to the member's address, up to the role `highestRole`. The caller records each of them with
 * `recordWithdrawal` once it has locked all rows that it needs.
 */
export async function withdrawInvitationsTo(transaction: Db, actor: Actor, userId: string, highestRole: Role): Promise<Withdrawn[]> {
  const roles = rolesFromHighest.slice(rolesFromHighest.indexOf(highestRole));
  const email = selectMember(transaction, actor.orgId).select('users.email').where('users.id', '=', userId);
  return withdrawOpen(transaction, actor).where('email', '=', email).where('role', 'in', roles).execute();
}

type Withdrawn = Pick<Selectable<Schema['invitations']>, 'id' | 'email' | 'role'>;

export async function recordWithdrawal(transaction: Db, actor: Actor, { id, email, role }: Withdrawn): Promise<void> {
  await recordAudit(transaction, actor, {
    action: 'member.removed',
    subjectType: 'invitation',
    subjectId: id,
    metadata: { email, role, withdrawn: true },
  });
}

function withdrawOpen(transaction: Db, { orgId, at }: Actor) {
  return transaction
    .updateTable('invitations')
    .set({ revoked_at: at })
    .where('org_id', '=', orgId)
    .where(isOpen(at))
    .returning(['id', 'email', 'role']);
}

async function isMember(transaction: Db, orgId: number, email: string): Promise<boolean> {
  const member = await selectMember(transaction, orgId).select('users.id').where('users.email', '=', email).executeTakeFirst();
  return member !== undefined;
}

function selectMember(transaction: Db, orgId: number) {
  return transaction.selectFrom('members').innerJoin('users', 'users.id', 'members.user_id').where('members.org_id', '=', orgId);
}

/** Invitations that can still be accepted. */
export function selectOpenInvitations(db: Db, now: Date) {
  return db.selectFrom('invitations').selectAll().where(isOpen(now));
}

function isOpen(now: Date) {
  return (column: ExpressionBuilder<Schema, 'invitations'>) =>
    column.and([column('accepted_at', 'is', null), column('revoked_at', 'is', null), column('expires_at', '>', now)]);
}

function invitationFrom(row: Selectable<Schema['invitations']>): Invitation {
  return { id: row.id, email: row.email ?? undefined, role: row.role, createdAt: row.created_at, expiresAt: row.expires_at };
}
