export interface Organization {
  id: number;
  slug: string;
  name: string;
  status: 'active' | 'suspended';
  defaultAgentId: number | undefined;
  transcriptsAccess: boolean;
}

export const rolesFromHighest = ['owner', 'admin', 'member'] as const;
export type Role = (typeof rolesFromHighest)[number];

/** Who a request acts for. By itself it gives access to nothing: every read of customer data takes the org as well. */
export type Principal = KeyPrincipal | TokenPrincipal | MemberPrincipal;

/** An API key of the customer's backend. */
export interface KeyPrincipal {
  type: 'key';
  keyId: number;
  prefix: string;
  organization: Organization;
  scopes: ReadonlySet<string>;
  /** Whether it may grant and remove the role owner; not if an admin created it. */
  managesOwners: boolean;
}

/** A session token in an end user's browser; without `endUserId` it is anonymous. */
export interface TokenPrincipal {
  type: 'token';
  organization: Organization;
  agentId: number;
  agentSlug: string;
  endUserId: string | undefined;
  agentInstanceId: string | undefined;
  /** What the backend put into the token for the sessions it opens. */
  metadata: Record<string, unknown>;
  /** Whether the end user may answer approvals, or only the customer's backend and members. */
  mayApprove: boolean;
  expiresAt: Date;
  tokenId: string;
}

/** A person signed in to the dashboard. */
export interface MemberPrincipal {
  type: 'member';
  userId: string;
  email: string;
  role: Role;
  organization: Organization;
  scopes: ReadonlySet<string>;
}
