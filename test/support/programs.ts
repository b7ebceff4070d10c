// Finds programs that some tests need. As root on Debian, a missing one is installed; elsewhere the caller gets an error that says what to
// install, so that no test is skipped silently.
import { execFileSync } from 'node:child_process';
import { accessSync, constants, globSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export const findChromium = (): string =>
  findOrInstall(['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'], [], 'chromium');

export const findRedis = (): string => findOrInstall(['redis-server', 'valkey-server'], [], 'redis-server');

/** The folder with initdb and postgres. Debian keeps them off the PATH, one folder per version. */
export function findPostgres(): string {
  const folders = globSync(['/usr/lib/postgresql/*/bin', '/opt/homebrew/opt/postgresql@*/bin', '/usr/local/pgsql/bin']).sort(newestFirst);
  return findOrInstall(['initdb'], folders, 'postgresql').replace(/\/initdb$/, '');
}

function findOrInstall(names: string[], folders: string[], aptPackage: string): string {
  const found = find(names, folders) ?? install(names, aptPackage);
  if (found === undefined)
    throw new Error(`${names[0]} is needed for these tests and was not found: install it (Debian: apt-get install ${aptPackage})`);
  return found;
}

function find(names: string[], folders: string[]): string | undefined {
  const path = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return names.flatMap((name) => [...path, ...folders].map((folder) => join(folder, name))).find(isExecutable);
}

function install(names: string[], aptPackage: string): string | undefined {
  if (process.getuid?.() !== 0 || find(['apt-get'], []) === undefined) return undefined;
  console.error(`Installing ${aptPackage} (apt-get), once ...`);
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const apt = (...args: string[]) => execFileSync('apt-get', ['-q', ...args], { env: environment, stdio: ['ignore', 'ignore', 'inherit'] });
  const installPackage = () => apt('install', '-y', '--no-install-recommends', aptPackage);
  try {
    installPackage();
  } catch {
    // The usual reason in a fresh container: no package lists yet.
    apt('update');
    installPackage();
  }
  return find(names, globSync('/usr/lib/postgresql/*/bin').sort(newestFirst));
}

const newestFirst = (a: string, b: string) => b.localeCompare(a, 'en', { numeric: true });

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
