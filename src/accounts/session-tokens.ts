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
import { clockDifferenceSeconds, longestLifeSeconds, type SigningKeys } from './signing-keys.ts';

export interface TokenRequest {
  endUserId?: string | undefined;
  agentInstanceId?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  /** By default true. */
  mayApprove?: boolean | undefined;
  ttlSeconds: number;
}

/** What a token says. Its organization and agent may have been deleted since. */
type Claims = Omit<TokenPrincipal, 'type' | 'organization'> & { orgId: number; kid: string };

const audience = 'parley:agent';
const scope = 'agent:converse';

/**
 * Signed tokens for an end user's browser: minted at the request of the customer's backend, verified without a query of their own.
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
    const known = this.verified.get(key);
    const claims = known !== undefined && this.keys.stillVerifies(known.kid) ? known : await this.checkSignature(token);
    if (claims === undefined || claims.expiresAt.getTime() <= this.clock.now().getTime()) return undefined;
    this.verified.set(key, claims);
    const { orgId, kid: _, ...granted } = claims;
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
      if (kid === undefined) return undefined;
      const publicKey = await this.keys.publicKey(kid);
      if (publicKey === undefined) return undefined;
      const now = this.clock.now();
      const { payload } = await jwtVerify(token, publicKey, {
        algorithms: ['EdDSA'],
        audience,
        issuer: this.issuer,
        currentDate: now,
        requiredClaims: ['exp', 'iat', 'jti', 'org_id', 'agent_id', 'scope'],
      });
      return livesAsLongAsOurs(payload, now) ? claimsFrom(payload, kid) : undefined;
    } catch (error) {
      if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
      throw error;
    }
  }
}

/** A token of a longer life, or of the future, is not one that we minted, though its signature is right. */
function livesAsLongAsOurs({ iat, exp }: JWTPayload, now: Date): boolean {
  if (iat === undefined || exp === undefined) return false;
  return exp - iat <= longestLifeSeconds && iat - now.getTime() / 1_000 <= clockDifferenceSeconds;
}

function claimsFrom(payload: JWTPayload, kid: string): Claims | undefined {
  const { org_id: orgId, agent_id: agentId, agent_slug: agentSlug, agent_instance_id: instance, metadata, exp, jti, sub } = payload;
  if (payload.scope !== scope || typeof orgId !== 'number' || typeof agentId !== 'number' || typeof agentSlug !== 'string')
    return undefined;
  if (exp === undefined || jti === undefined) return undefined;
  return {
    kid,
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
