import { randomUUID } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import { isRecord } from '../text/json.ts';
import { atMost } from '../work/at-most.ts';
import type { Agent } from './agents.ts';
import { hashOfSecret } from './api-keys.ts';
import type { Directory } from './directory.ts';
import type { Organization, TokenPrincipal } from './principal.ts';
import type { SigningKeys } from './signing-keys.ts';

export interface TokenRequest {
  endUserId?: string | undefined;
  agentInstanceId?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  /** By default true. */
  mayApprove?: boolean | undefined;
  ttlSeconds: number;
}

/** What a token says. Its organization and agent may have been deleted since. */
type Claims = Omit<TokenPrincipal, 'type' | 'organization'> & { orgId: number };

const audience = 'parley:agent';
const scope = 'agent:converse';

/**
 * Signed tokens for an end user's browser: minted at the request of the customer's backend, verified without a query.
 * The library `jose` takes 12 MB of memory, so it is loaded with the first token.
 */
export class SessionTokens {
  private readonly keys: SigningKeys;
  private readonly directory: Directory;
  private readonly clock: Clock;
  private readonly issuer: string;
  /** By the token's hash. A browser sends the same token with every request; its signature is checked once. */
  private readonly verified = new LRUCache<string, Claims>(atMost(10_000));

  constructor(keys: SigningKeys, directory: Directory, clock: Clock, issuer: string) {
    this.keys = keys;
    this.directory = directory;
    this.clock = clock;
    this.issuer = issuer;
  }

  async mint(
    organization: Organization,
    agent: Agent,
    request: TokenRequest,
  ): Promise<{ token: string; tokenId: string; expiresAt: Date }> {
    const { SignJWT } = await import('jose');
    const { kid, privateKey } = await this.keys.current();
    const issuedAt = Math.floor(this.clock.now().getTime() / 1_000);
    const tokenId = randomUUID();
    const claims = {
      org_id: organization.id,
      agent_id: agent.id,
      agent_slug: agent.slug,
      scope,
      ...(request.agentInstanceId === undefined ? {} : { agent_instance_id: request.agentInstanceId }),
      ...(request.metadata === undefined ? {} : { metadata: request.metadata }),
      ...(request.mayApprove === false ? { may_approve: false } : {}),
    };
    const unsigned = new SignJWT(claims)
      .setProtectedHeader({ alg: 'EdDSA', kid, typ: 'JWT' })
      .setIssuer(this.issuer)
      .setAudience(audience)
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + request.ttlSeconds)
      .setJti(tokenId);
    if (request.endUserId !== undefined) unsigned.setSubject(request.endUserId);
    return { token: await unsigned.sign(privateKey), tokenId, expiresAt: new Date((issuedAt + request.ttlSeconds) * 1_000) };
  }

  /** Undefined for anything but an unexpired token that we signed, whose org and agent still exist. */
  async verify(token: string): Promise<TokenPrincipal | undefined> {
    if (token.length > 8_192 || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return undefined;
    const key = hashOfSecret(token);
    const claims = this.verified.get(key) ?? (await this.checkSignature(token));
    if (claims === undefined || claims.expiresAt.getTime() <= this.clock.now().getTime()) return undefined;
    this.verified.set(key, claims);
    const { orgId, ...granted } = claims;
    const organization = await this.directory.organizationById(orgId);
    const agent = organization && (await this.directory.agentById(orgId, claims.agentId));
    if (organization === undefined || agent === undefined) return undefined;
    return { type: 'token', organization, ...granted };
  }

  private async checkSignature(token: string): Promise<Claims | undefined> {
    const { decodeProtectedHeader, errors, jwtVerify } = await import('jose');
    try {
      // The token's header only chooses among our own keys; the algorithm is always EdDSA.
      const { kid } = decodeProtectedHeader(token);
      const publicKey = kid === undefined ? undefined : await this.keys.publicKey(kid);
      if (publicKey === undefined) return undefined;
      const { payload } = await jwtVerify(token, publicKey, {
        algorithms: ['EdDSA'],
        audience,
        issuer: this.issuer,
        currentDate: this.clock.now(),
        requiredClaims: ['exp', 'iat', 'jti', 'org_id', 'agent_id', 'scope'],
      });
      return claimsFrom(payload);
    } catch (error) {
      if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
      throw error;
    }
  }
}

function claimsFrom(payload: JWTPayload): Claims | undefined {
  const { org_id: orgId, agent_id: agentId, agent_slug: agentSlug, agent_instance_id: instance, metadata, exp, jti, sub } = payload;
  if (payload.scope !== scope || typeof orgId !== 'number' || typeof agentId !== 'number' || typeof agentSlug !== 'string')
    return undefined;
  if (exp === undefined || jti === undefined) return undefined;
  return {
    orgId,
    agentId,
    agentSlug,
    endUserId: sub,
    agentInstanceId: typeof instance === 'string' ? instance : undefined,
    metadata: isRecord(metadata) ? metadata : {},
    mayApprove: payload.may_approve !== false,
    expiresAt: new Date(exp * 1_000),
    tokenId: jti,
  };
}
