// Installs the packages, among them Node 24, and runs a script on that Node. This file is plain JavaScript and imports no package, because
// it runs on the machine's own Node before anything is installed.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));
const modules = join(root, 'node_modules');
export const pinnedNode = join(modules, 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** Installs the packages of the lock file if some are missing. With `runtime`, missing development packages do not count; with `all` they do. */
export function installMissing(packages) {
  if (!isInstalled(packages)) {
    // npm ci empties node_modules first: through a link it would empty that of another checkout.
    if (lstatSync(modules, { throwIfNoEntry: false })?.isSymbolicLink()) {
      console.error(
        'node_modules is a link and does not match package-lock.json: run npm ci where it points to. Going on with what is there.',
      );
    } else {
      console.error('Installing packages (npm ci) ...');
      const started = Date.now();
      runNpm(['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']);
      console.error(`Installed in ${Math.round((Date.now() - started) / 1000)} s.`);
    }
  }
  // The package `node` fetches its binary in an install script, which npm may be configured to ignore.
  if (!existsSync(pinnedNode)) {
    const folder = join(modules, 'node');
    run(process.execPath, ['installArchSpecificPackage.js'], folder, 'installing Node 24');
  }
}

/**
 * Replaces this process with a script that runs on the pinned Node. Where Node cannot do that (Windows, older versions), it
 * runs as a child process that gets our signals and whose exit code becomes ours.
 */
export function becomeNode(script, args) {
  const command = [join(root, script), ...args];
  // With a compile cache a start takes half the time. V8 rejects a cache that was made under other flags, and the server sets a flag that
  // other scripts do not: in a shared folder each would overwrite the other's cache.
  const compiled = script === 'src/main.ts' ? 'compiled' : 'compiled-tools';
  const environment = { NODE_COMPILE_CACHE: join(modules, '.cache', 'parley', compiled), ...process.env };
  if (process.execve) process.execve(pinnedNode, [pinnedNode, ...command], environment);
  const child = spawn(pinnedNode, command, { stdio: 'inherit', env: environment });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(
      signal,
      onceASecond(() => child.kill(signal)),
    );
  child.on('error', (error) => fail(`${pinnedNode}: ${error.message}`));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

// Ctrl-C arrives here twice, from the terminal and from npm; the child should get it once.
function onceASecond(action) {
  let last = 0;
  return () => {
    if (Date.now() - last < 1000) return;
    last = Date.now();
    action();
  };
}

function isInstalled(packages) {
  const wanted = readPackages(join(root, 'package-lock.json'));
  const present = readPackages(join(modules, '.package-lock.json'));
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '') return true;
    const installed = present[path];
    if (installed) return installed.version === entry.version;
    return entry.optional || entry.devOptional || (packages === 'runtime' && entry.dev);
  });
}

function readPackages(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8')).packages;
  } catch (error) {
    if (error.code === 'ENOENT') return {};
    throw error;
  }
}

function runNpm(args) {
  const npm = process.env.npm_execpath;
  if (npm?.endsWith('npm-cli.js')) run(process.execPath, [npm, ...args], root, 'npm ci');
  else run('npm', args, root, 'npm ci');
}

function run(program, args, folder, name) {
  const { status, error } = spawnSync(program, args, { cwd: folder, stdio: ['ignore', 2, 2], shell: process.platform === 'win32' });
  if (error) fail(`${name} could not be started: ${error.message}`);
  if (status !== 0) fail(`${name} failed (exit code ${status}).`);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
