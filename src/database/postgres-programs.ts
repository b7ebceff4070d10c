// The programs that come with PostgreSQL, as a backup calls them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { environmentWith } from '../config.ts';

export async function dumpPostgres(databaseUrl: string, file: string): Promise<void> {
  const { url, environment } = withoutPassword(databaseUrl);
  await run('pg_dump', ['--format=custom', `--file=${file}`, url], environment);
}

export async function restorePostgres(databaseUrl: string, file: string): Promise<void> {
  const { url, environment } = withoutPassword(databaseUrl);
  // Roles are the server's, and another may not have those that owned the tables or were let in.
  const options = ['--no-owner', '--no-privileges', '--exit-on-error', '--single-transaction'];
  await run('pg_restore', [...options, `--dbname=${url}`, file], environment);
}

/** Arguments are in the list of processes for all to see: the password goes by the environment, and the URL keeps every other option that libpq knows. */
function withoutPassword(databaseUrl: string): { url: string; environment: NodeJS.ProcessEnv } {
  const url = new URL(databaseUrl);
  // As `pg` reads it: one among the options comes before the one beside the user.
  const password = url.searchParams.get('password') || decodeURIComponent(url.password);
  url.password = '';
  // The second is for `pg` alone: libpq, which would refuse it, is always itself.
  for (const name of ['password', 'uselibpqcompat']) {
    if (!url.searchParams.has(name)) continue;
    url.searchParams.delete(name);
    // libpq takes a plus for a plus.
    url.search = url.search.replaceAll('+', '%20');
  }
  return { url: url.href, environment: password === '' ? {} : { PGPASSWORD: password } };
}

async function run(program: string, args: string[], environment: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'], env: environmentWith(environment) });
  const [code] = await once(child, 'exit').catch((error: unknown) => {
    throw new Error(`${program} is not installed; it comes with the PostgreSQL client`, { cause: error });
  });
  if (code !== 0) throw new Error(`${program} failed; nothing was changed`);
}
