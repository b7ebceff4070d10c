import type { Config } from '../config.ts';
import type { Database } from '../database/database.ts';
import { errorCode, ServiceError } from '../errors.ts';
import { fieldOf } from '../text/json.ts';
import { type LoadedOnce, loadOnce } from '../work/load-once.ts';
import { Attempts } from './attempts.ts';
import type { Directory } from './directory.ts';
import { membershipsOf } from './members.ts';
import type { MemberPrincipal, Organization, Role } from './principal.ts';
import { scopesOfRole } from './scopes.ts';
import type { SecretBox } from './secret-box.ts';

/** The paths of the sign-in library that are served: none to sign up, which takes an invitation, and none that sends mail. */
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
  /** Every org that the person belongs to. */
  organizations: { organization: Organization; role: Role }[];
}

const cookieName = 'parley.session_token';
const foreignKeyViolation = '23503';

/** Signs people in to the dashboard with the library better-auth, which is loaded with the first request that needs it. */
export class SignIn {
  private readonly database: Database;
  private readonly directory: Directory;
  /**
   * Guesses at passwords, by account: they may come from many IP addresses, and the library counts only per address. One that was
   * not checked is taken back: otherwise one client, without a single guess, could keep everybody out, and push the counts of others
   * out of memory.
   */
  readonly guesses = new Attempts();
  /** Attempts to join, by client address. Apart from the guesses, which they could otherwise push out of memory: they cost next to nothing. */
  readonly joining = new Attempts();
  private readonly library: LoadedOnce<Library>;

  constructor(config: Config, database: Database, directory: Directory, secrets: SecretBox) {
    this.database = database;
    this.directory = directory;
    this.library = loadOnce(() => loadLibrary(config, database, secrets));
  }

  serves(path: string): boolean {
    return servedPaths.has(path);
  }

  async handle(request: Request): Promise<Response> {
    const library = await this.library.get();
    try {
      return await library.handler(request);
    } catch (error) {
      // The account was deleted, with its last membership, while its password was being checked.
      if (errorCode(error) === foreignKeyViolation) throw wrongPassword();
      throw error;
    }
  }

  /** Signs in. A session that was opened with a password that was changed while it was checked is closed again. */
  async signIn(email: string, request: Request): Promise<Response> {
    const before = await this.passwordOf(email);
    const response = await this.handle(request);
    if (!response.ok || (await this.passwordOf(email)) === before) return response;
    const token = fieldOf(await response.json(), 'token');
    await this.database.db.deleteFrom('user_sessions').where('token', '=', String(token)).execute();
    throw wrongPassword();
  }

  /** The person whose cookie this is, acting for the org of that slug, or for the first one that they joined. */
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

  /** The hash of the account's password. */
  private async passwordOf(email: string): Promise<string | null | undefined> {
    const row = await this.database.db
      .selectFrom('users')
      .innerJoin('user_accounts', 'user_accounts.user_id', 'users.id')
      .select('user_accounts.password')
      .where('users.email', '=', email.toLowerCase())
      .where('user_accounts.provider_id', '=', 'credential')
      .executeTakeFirst();
    return row?.password;
  }

  /** The library hides what went wrong. If it is the database, `ping` throws the actual error; otherwise the second try may succeed. */
  private async sessionOf(headers: Headers) {
    const library = await this.library.get();
    // A refresh would prolong the session but not its cookie, and it is a write, which fails while the database is read-only.
    const read = () => library.api.getSession({ headers, query: { disableRefresh: true } });
    try {
      return await read();
    } catch {
      await this.database.ping();
      return read();
    }
  }
}

function wrongPassword(): ServiceError {
  return new ServiceError('unauthorized', 'Invalid email or password');
}

type Library = Awaited<ReturnType<typeof loadLibrary>>;

async function loadLibrary(config: Config, database: Database, secrets: SecretBox) {
  const { betterAuth } = await import('better-auth');
  const times = { createdAt: 'created_at', updatedAt: 'updated_at' };
  const publicUrl = config.PARLEY_PUBLIC_URL;
  const isSecure = publicUrl?.startsWith('https:') ?? false;
  return betterAuth({
    appName: 'Parley',
    basePath: '/auth',
    secret: secrets.derive('sign-in cookies'),
    database: { db: database.db, type: 'postgres' },
    telemetry: { enabled: false },
    logger: { disabled: true },
    // The library throws unexpected errors to us, instead of printing them and answering 500 itself.
    onAPIError: { throw: true },
    emailAndPassword: { enabled: true, disableSignUp: true, minPasswordLength: 10, maxPasswordLength: 256 },
    // Only the origin: a proxy has removed the path, and the library would use it instead of `basePath`.
    ...(publicUrl === undefined ? {} : { baseURL: new URL(publicUrl).origin }),
    // `requireOwnAddress` has refused every origin but the address that the browser used, which need not be the public one.
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
      // A browser takes a cookie of such a name from this very host only. Under any other, one that a page on a sibling host has set for
      // the whole domain could be sent before ours, and people would act in someone else's account without noticing.
      cookiePrefix: isSecure ? '__Host-parley' : 'parley',
      useSecureCookies: false,
      defaultCookieAttributes: { sameSite: 'strict', httpOnly: true, path: '/', secure: isSecure },
      ipAddress: { ipAddressHeaders: ['x-parley-client'] },
    },
  });
}
