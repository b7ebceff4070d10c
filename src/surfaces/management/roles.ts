import { type Principal, type Role, rolesFromHighest } from '../../accounts/principal.ts';
import { scopesOfRole } from '../../accounts/scopes.ts';
import { ServiceError } from '../../errors.ts';
import { scopesOf } from '../shared/caller/authenticate.ts';

/**
 * A role is a set of scopes, so nobody can grant or revoke one with a scope that they lack. The role owner has a rule of its own, and so
 * has the role member: `members:write`, which the route has checked, is enough for it.
 */
export function assertMayGrant(principal: Principal, role: Role): void {
  const reason = refusalOf(principal, role);
  if (reason !== undefined) throw new ServiceError('forbidden', reason);
}

/** The highest role that the caller, who may grant one, can grant. */
export function highestRoleFor(principal: Principal): Role {
  return rolesFromHighest.find((role) => refusalOf(principal, role) === undefined) ?? 'member';
}

function refusalOf(principal: Principal, role: Role): string | undefined {
  if (role === 'member') return undefined;
  const own = scopesOf(principal);
  const lacking = [...scopesOfRole(role)].find((scope) => !own.has(scope));
  if (lacking !== undefined) return `The role ${role} includes a scope that the caller lacks: ${lacking}`;
  if (role === 'owner' && !managesOwners(principal))
    return 'Only an owner, or a key that was not created by an admin, can grant or remove the role owner';
  return undefined;
}

/** A key may do this if its creator could: otherwise an admin could create a key and make owners with it. */
export function managesOwners(principal: Principal): boolean {
  switch (principal.type) {
    case 'key':
      return principal.managesOwners;
    case 'member':
      return principal.role === 'owner';
    case 'token':
      return false;
  }
}
