import type { Principal, Role } from '../../accounts/principal.ts';
import { scopesOfRole } from '../../accounts/scopes.ts';
import { ServiceError } from '../../errors.ts';
import { scopesOf } from '../shared/caller/authenticate.ts';

/** A role is a set of scopes, so nobody can grant or revoke one with a scope that they lack. The role owner has a rule of its own. */
export function assertMayGrant(principal: Principal, role: Role): void {
  const own = scopesOf(principal);
  const lacking = [...scopesOfRole(role)].find((scope) => !own.has(scope));
  if (lacking !== undefined) throw new ServiceError('forbidden', `The role ${role} includes a scope that the caller lacks: ${lacking}`);
  if (role === 'owner' && !managesOwners(principal))
    throw new ServiceError('forbidden', 'Only an owner, or a key that was not created by an admin, can grant or remove the role owner');
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
