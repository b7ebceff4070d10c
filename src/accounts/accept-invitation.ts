import { randomUUID } from 'node:crypto';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import { orNotFound, ServiceError } from '../errors.ts';
import { hashOfSecret } from './api-keys.ts';
import { selectOpenInvitations } from './invitations.ts';
import { findMember, type Member } from './members.ts';

/** What `acceptInvitation` needs, prepared outside of the transaction: hashing a password takes tens of milliseconds on purpose. */
export interface Acceptance {
  orgId: number;
  tokenHash: string;
  email: string;
  account: { userId: string } | { name: string; passwordHash: string } | { memberId: string };
}

/**
 * Checks the invitation's token and the password. Undefined when the token is unknown, withdrawn, expired or used by somebody else. A
 * person who has an account already keeps it and gives its password; `countAttempt` is called before that password is checked. `email` is
 * needed only where the invitation names none.
 */
export async function prepareAcceptance(
  db: Db,
  now: Date,
  input: { token: string; email?: string; name: string; password: string },
  countAttempt: (email: string) => void,
): Promise<Acceptance | undefined> {
  if (!/^inv_[A-Za-z0-9_-]{32}$/.test(input.token)) return undefined;
  const tokenHash = hashOfSecret(input.token);
  const row = await selectOpenInvitations(db, now).where('token_hash', '=', tokenHash).executeTakeFirst();
  if (row === undefined) return findJoined(db, tokenHash, input, countAttempt);
  const email = row.email ?? input.email?.toLowerCase();
  if (email === undefined) throw new ServiceError('invalid', 'email: is required, since this invitation names none');
  const userId = await findUser(db, email, input.password, countAttempt);
  const account = userId === undefined ? { name: input.name, passwordHash: await hashPassword(input.password) } : { userId };
  return { orgId: row.org_id, tokenHash, email, account };
}

/** Adds the member to the org, unless they have joined already. Undefined when the invitation was accepted or withdrawn meanwhile. */
export async function acceptInvitation(transaction: Db, actor: Actor, acceptance: Acceptance): Promise<Member | undefined> {
  const { email, account } = acceptance;
  if ('memberId' in account) return orNotFound(await findMember(transaction, actor.orgId, account.memberId));
  const row = await selectOpenInvitations(transaction, actor.at)
    .where('org_id', '=', actor.orgId)
    .where('token_hash', '=', acceptance.tokenHash)
    .forUpdate()
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const userId =
    'userId' in account ? await lockUser(transaction, account.userId, email) : await createUser(transaction, actor, { email, ...account });
  const joined = await transaction
    .insertInto('members')
    .values({ org_id: actor.orgId, user_id: userId, role: row.role, created_at: actor.at })
    .onConflict((conflict) => conflict.doNothing())
    .returning('user_id')
    .executeTakeFirst();
  if (joined === undefined) throw new ServiceError('conflict', `${email} is already a member`);
  await transaction.updateTable('invitations').set({ accepted_at: actor.at }).where('id', '=', row.id).execute();
  await recordAudit(
    transaction,
    { ...actor, email, userId },
    { action: 'member.joined', subjectType: 'member', subjectId: userId, metadata: { email, role: row.role } },
  );
  const member = await findMember(transaction, actor.orgId, userId);
  if (member === undefined) throw new Error('the member that was just added is missing');
  return member;
}

/** The member who has joined with this very invitation, and asks again because the answer was lost. Undefined for anyone else. */
async function findJoined(
  db: Db,
  tokenHash: string,
  input: { email?: string; password: string },
  countAttempt: (email: string) => void,
): Promise<Acceptance | undefined> {
  const joined = await db
    .selectFrom('invitations')
    // Both times are that of the request that joined.
    .innerJoin('members', (join) =>
      join.onRef('members.org_id', '=', 'invitations.org_id').onRef('members.created_at', '=', 'invitations.accepted_at'),
    )
    .innerJoin('users', 'users.id', 'members.user_id')
    .innerJoin('user_accounts', (join) => join.onRef('user_accounts.user_id', '=', 'users.id').on('provider_id', '=', 'credential'))
    .select(['members.org_id', 'users.id', 'users.email', 'user_accounts.password'])
    .where('token_hash', '=', tokenHash)
    .where('users.email', '=', ({ fn, ref, val }) => fn.coalesce(ref('invitations.email'), val(input.email?.toLowerCase() ?? null)))
    .executeTakeFirst();
  if (joined === undefined) return undefined;
  countAttempt(joined.email);
  if (joined.password === null || !(await isPasswordOf(joined.password, input.password))) return undefined;
  return { orgId: joined.org_id, tokenHash, email: joined.email, account: { memberId: joined.id } };
}

/** The id of the account with this address, or undefined. Throws `forbidden` when the password is not the account's. */
async function findUser(db: Db, email: string, password: string, countAttempt: (email: string) => void): Promise<string | undefined> {
  const account = await db
    .selectFrom('users')
    .leftJoin('user_accounts', (join) => join.onRef('user_accounts.user_id', '=', 'users.id').on('provider_id', '=', 'credential'))
    .select(['users.id', 'user_accounts.password'])
    .where('users.email', '=', email)
    .executeTakeFirst();
  if (account === undefined) return undefined;
  countAttempt(email);
  if (account.password !== null && (await isPasswordOf(account.password, password))) return account.id;
  throw new ServiceError('forbidden', `${email} already has an account: enter its password`);
}

/** Keeps the account from being deleted until the commit. It may have been, with its last membership, while its password was being checked. */
async function lockUser(transaction: Db, id: string, email: string): Promise<string> {
  const user = await transaction.selectFrom('users').select('id').where('id', '=', id).forKeyShare().executeTakeFirst();
  if (user === undefined) throw new ServiceError('conflict', `The account of ${email} was just removed: try again`);
  return user.id;
}

async function createUser(transaction: Db, actor: Actor, input: { email: string; name: string; passwordHash: string }): Promise<string> {
  const id = randomUUID();
  const times = { created_at: actor.at, updated_at: actor.at };
  const user = await transaction
    .insertInto('users')
    .values({ id, email: input.email, name: input.name, email_verified: true, ...times })
    .onConflict((conflict) => conflict.column('email').doNothing())
    .returning('id')
    .executeTakeFirst();
  if (user === undefined) throw new ServiceError('conflict', `${input.email} has just joined: try again with that account's password`);
  await transaction
    .insertInto('user_accounts')
    .values({ id: randomUUID(), user_id: id, account_id: id, provider_id: 'credential', password: input.passwordHash, ...times })
    .execute();
  return id;
}

// scrypt on another thread, in the format of the sign-in library, which is loaded when the first person joins.

async function hashPassword(password: string): Promise<string> {
  const crypto = await import('better-auth/crypto');
  return crypto.hashPassword(password);
}

async function isPasswordOf(hash: string, password: string): Promise<boolean> {
  const crypto = await import('better-auth/crypto');
  return crypto.verifyPassword({ hash, password });
}
