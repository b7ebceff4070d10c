// Finds programs that some tests need. As root on Debian, a missing one is installed; elsewhere the caller gets an error that says what to
// install, so that no test is skipped silently.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, globSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Rather the one without windows: it takes two thirds of the CPU time. Older Debians have only the other. */
export const findChromium = (): string =>
  findOrInstall(
    ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'],
    [],
    ['chromium-headless-shell', 'chromium'],
  );

export const findRedis = (): string => findOrInstall(['redis-server', 'valkey-server'], [], ['redis-server']);

/** The folder with initdb and postgres. Debian keeps them off the PATH, one folder per version. */
export function findPostgres(): string {
  const folders = globSync(['/usr/lib/postgresql/*/bin', '/opt/homebrew/opt/postgresql@*/bin', '/usr/local/pgsql/bin']).sort(newestFirst);
  return findOrInstall(['initdb'], folders, ['postgresql']).replace(/\/initdb$/, '');
}

/** Of the packages, the first that can be installed is enough. */
function findOrInstall(names: string[], folders: string[], aptPackages: string[]): string {
  const found = find(names, folders) ?? install(names, aptPackages);
  if (found === undefined)
    throw new Error(`${names[0]} is needed for these tests and was not found: install it (Debian: apt-get install ${aptPackages[0]})`);
  return found;
}

function find(names: string[], folders: string[]): string | undefined {
  const path = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return names.flatMap((name) => [...path, ...folders].map((folder) => join(folder, name))).find(isExecutable);
}

function install(names: string[], aptPackages: string[]): string | undefined {
  if (process.getuid?.() !== 0 || find(['apt-get'], []) === undefined) return undefined;
  console.error(`Installing ${aptPackages[0]} (apt-get), once ...`);
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const apt = (...args: string[]) =>
    spawnSync('apt-get', ['-q', ...args], { env: environment, stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
  const installOne = () => aptPackages.some((each) => apt('install', '-y', '--no-install-recommends', each));
  // If none can be, the usual reason in a fresh container is that it has no package lists yet.
  if (!installOne() && apt('update')) installOne();
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
