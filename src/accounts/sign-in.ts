import { LRUCache } from 'lru-cache';
import type { Config } from '../config.ts';
import type { Database } from '../database/database.ts';
import { errorCode, ServiceError } from '../errors.ts';
import { type LoadedOnce, loadOnce } from '../load-once.ts';
import type { Directory } from './directory.ts';
import { membershipsOf } from './members.ts';
import type { MemberPrincipal, Organization, Role } from './principal.ts';
import { scopesOfRole } from './scopes.ts';
import type { SecretBox } from './secret-box.ts';

/** What of the sign-in library is served; joining goes through invitations, and no mail is ever sent. */
const servedPaths = new Set([
  '/sign-in/email',
  '/sign-out',
  '/get-session',
  '/change-password',
  '/list-sessions',
  '/revoke-other-sessions',
]);

export interface SignedIn {
  principal: MemberPrincipal;
  name: string;
  /** Every org the person belongs to. */
  organizations: { organization: Organization; role: Role }[];
}

const cookieName = 'parley.session_token';
const attemptsPerAccount = 10;
const attemptsKeptMs = 10 * 60_000;
const foreignKeyViolation = '23503';

/** People who sign in to the dashboard. The library behind it is loaded with the first request that needs it. */
export class SignIn {
  private readonly database: Database;
  private readonly directory: Directory;
  /** Guesses at one account come from many addresses; the library counts by address only. */
  private readonly attempts = new LRUCache<string, { count: number }>({ max: 10_000, ttl: attemptsKeptMs });
  private readonly library: LoadedOnce<Library>;

  constructor(config: Config, database: Database, directory: Directory, secrets: SecretBox) {
    this.database = database;
    this.directory = directory;
    this.library = loadOnce(() => loadLibrary(config, database, secrets));
  }

  serves(path: string): boolean {
    return servedPaths.has(path);
  }

  /** Before a password of this account is checked. Throws when it was tried too often lately. */
  countAttempt(email: string): void {
    const attempts = this.attempts.get(email.toLowerCase()) ?? { count: 0 };
    attempts.count += 1;
    if (attempts.count === 1) this.attempts.set(email.toLowerCase(), attempts);
    if (attempts.count > attemptsPerAccount)
      throw new ServiceError('rate-limited', 'Too many attempts', { retryAfterSeconds: attemptsKeptMs / 1_000 });
  }

  succeeded(email: string): void {
    this.attempts.delete(email.toLowerCase());
  }

  async handle(request: Request): Promise<Response> {
    const library = await this.library.get();
    try {
      return await library.handler(request);
    } catch (error) {
      // The account went with its last membership while its password was being checked.
      if (errorCode(error) === foreignKeyViolation) throw new ServiceError('unauthorized', 'Invalid email or password');
      throw error;
    }
  }

  /** Who the cookie stands for, acting for the org of that slug, or for the first one they joined. */
  async memberOf(headers: Headers, slug: string | undefined): Promise<SignedIn | undefined> {
    if (!headers.get('cookie')?.includes(cookieName)) return undefined;
    const session = await this.sessionOf(headers);
    if (session === null) return undefined;
    const { id: userId, email, name } = session.user;
    const memberships = await membershipsOf(this.database.db, userId);
    const organizations = [];
    for (const { orgId, role } of memberships) {
      const organization = await this.directory.organizationById(orgId);
      if (organization !== undefined) organizations.push({ organization, role });
    }
    const chosen = slug === undefined ? organizations[0] : organizations.find(({ organization }) => organization.slug === slug);
    if (chosen === undefined) return undefined;
    const { organization, role } = chosen;
    return { principal: { type: 'member', userId, email, role, organization, scopes: scopesOfRole(role) }, name, organizations };
  }

  /** The library says of a failure only that there was one: the database tells what is wrong with it, or the second try succeeds. */
  private async sessionOf(headers: Headers) {
    const library = await this.library.get();
    // Not prolonged: its cookie is not either, and whoever only reads must get by without a write.
    const read = () => library.api.getSession({ headers, query: { disableRefresh: true } });
    try {
      return await read();
    } catch {
      await this.database.ping();
      return read();
    }
  }
}

type Library = Awaited<ReturnType<typeof loadLibrary>>;

async function loadLibrary(config: Config, database: Database, secrets: SecretBox) {
  const { betterAuth } = await import('better-auth');
  const times = { createdAt: 'created_at', updatedAt: 'updated_at' };
  const publicUrl = config.PARLEY_PUBLIC_URL;
  return betterAuth({
    appName: 'Parley',
    basePath: '/auth',
    secret: secrets.derive('sign-in cookies'),
    database: { db: database.db, type: 'postgres' },
    telemetry: { enabled: false },
    logger: { disabled: true },
    // What is no refusal of its own is for our handler: it would print it and answer 500.
    onAPIError: { throw: true },
    emailAndPassword: { enabled: true, disableSignUp: true, minPasswordLength: 10, maxPasswordLength: 256 },
    // Without its path, which a proxy has taken off, and which would stand in place of `basePath`.
    ...(publicUrl === undefined ? {} : { baseURL: new URL(publicUrl).origin }),
    // The route refuses every origin but the address that the browser used, which need not be the public one.
    trustedOrigins: (request) => [request?.headers.get('origin')],
    rateLimit: {
      enabled: true,
      storage: 'database',
      modelName: 'user_rate_limits',
      fields: { lastRequest: 'last_request' },
      window: 60,
      max: 120,
      customRules: { '/sign-in/email': { window: 60, max: 30 } },
    },
    user: { modelName: 'users', fields: { emailVerified: 'email_verified', ...times } },
    session: {
      modelName: 'user_sessions',
      fields: { userId: 'user_id', expiresAt: 'expires_at', ipAddress: 'ip_address', userAgent: 'user_agent', ...times },
      expiresIn: 7 * 24 * 3_600,
      updateAge: 24 * 3_600,
    },
    account: {
      modelName: 'user_accounts',
      fields: {
        userId: 'user_id',
        accountId: 'account_id',
        providerId: 'provider_id',
        accessToken: 'access_token',
        refreshToken: 'refresh_token',
        idToken: 'id_token',
        accessTokenExpiresAt: 'access_token_expires_at',
        refreshTokenExpiresAt: 'refresh_token_expires_at',
        ...times,
      },
    },
    verification: { modelName: 'user_verifications', fields: { expiresAt: 'expires_at', ...times } },
    advanced: {
      cookiePrefix: 'parley',
      useSecureCookies: publicUrl?.startsWith('https:') ?? false,
      defaultCookieAttributes: { sameSite: 'strict', httpOnly: true, path: '/' },
      ipAddress: { ipAddressHeaders: ['x-parley-client'] },
    },
  });
}
