import type { Principal, Role } from '../../accounts/principal.ts';
import { scopesOfRole } from '../../accounts/scopes.ts';
import { ServiceError } from '../../errors.ts';
import { scopesOf } from '../shared/authenticate.ts';
import { Type } from '../shared/type.ts';

export const roleSchema = Type.Enum(['owner', 'admin', 'member']);

/** A role is a set of scopes, so giving one is giving them; and only an owner makes or unmakes owners among people. */
export function assertMayGrant(principal: Principal, role: Role): void {
  const own = scopesOf(principal);
  const lacking = [...scopesOfRole(role)].find((scope) => !own.has(scope));
  if (lacking !== undefined) throw new ServiceError('forbidden', `The role ${role} includes a scope that the caller lacks: ${lacking}`);
  if (role === 'owner' && principal.type === 'member' && principal.role !== 'owner')
    throw new ServiceError('forbidden', 'Only an owner can give or take the role owner');
}
