// The programs that come with PostgreSQL, as a backup calls them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates } from 'node:tls';
import { environmentWith } from '../config.ts';
import { verifyingUrl } from './postgres.ts';

export async function dumpPostgres(databaseUrl: string, file: string): Promise<void> {
  const { url, environment } = withoutPassword(verifyingUrl(databaseUrl));
  await trusting(url, (authorities) => run('pg_dump', ['--format=custom', `--file=${file}`, url], { ...environment, ...authorities }));
}

export async function restorePostgres(databaseUrl: string, file: string): Promise<void> {
  const { url, environment } = withoutPassword(verifyingUrl(databaseUrl));
  // Roles belong to a server: another may not have the roles that owned the tables or had rights to them.
  const options = ['--no-owner', '--no-privileges', '--exit-on-error', '--single-transaction'];
  await trusting(url, (authorities) => run('pg_restore', [...options, `--dbname=${url}`, file], { ...environment, ...authorities }));
}

/**
 * To verify a certificate, libpq needs a file with the authorities to trust, and has none of its own. Where the URL names none, these are
 * the ones that the server trusts.
 */
async function trusting(url: string, work: (environment: NodeJS.ProcessEnv) => Promise<void>): Promise<void> {
  const options = new URL(url).searchParams;
  if (options.get('sslmode') !== 'verify-full' || options.has('sslrootcert')) return work({});
  const folder = await mkdtemp(join(tmpdir(), 'parley-authorities-'));
  try {
    const file = join(folder, 'authorities.pem');
    await writeFile(file, getCACertificates().join('\n'));
    await work({ PGSSLROOTCERT: file });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** What `pg` takes in a URL and libpq refuses. */
const driverOptions = [
  'ssl',
  'uselibpqcompat',
  'query_timeout',
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
];

/** The password goes through the environment, because everyone on the machine can see the arguments of a process. */
function withoutPassword(databaseUrl: string): { url: string; environment: NodeJS.ProcessEnv } {
  const url = new URL(databaseUrl);
  // Like `pg`: a password among the options takes precedence over the one beside the user.
  const password = url.searchParams.get('password') || decoded(url.password);
  url.password = '';
  const options = url.searchParams;
  // Without sslmode, `pg` verifies the certificate as soon as another option asks for TLS.
  const isTls = options.has('sslrootcert') || ['true', '1'].includes(options.get('ssl') ?? '');
  if (isTls && !options.has('sslmode')) options.set('sslmode', 'verify-full');
  for (const name of ['password', ...driverOptions].filter((name) => options.has(name))) options.delete(name);
  if (options.get('sslmode') === 'no-verify') options.set('sslmode', 'require');
  // Changing them encodes spaces anew, as `+`, which libpq does not decode.
  url.search = url.search.replaceAll('+', '%20');
  return { url: url.href, environment: password === '' ? {} : { PGPASSWORD: password } };
}

/** Like `pg`, takes a % that encodes nothing for itself. */
function decoded(password: string): string {
  try {
    return decodeURIComponent(password);
  } catch {
    return password;
  }
}

async function run(program: string, args: string[], environment: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'], env: environmentWith(environment) });
  const [code] = await once(child, 'exit').catch((error: unknown) => {
    throw new Error(`${program} is not installed; it comes with the PostgreSQL client`, { cause: error });
  });
  if (code !== 0) throw new Error(`${program} failed; nothing was changed`);
}
