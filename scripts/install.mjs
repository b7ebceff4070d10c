// Plain JavaScript without packages: this runs on the machine's own Node before anything is installed.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const modules = join(root, 'node_modules');
const pinnedNode = join(modules, 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** Installs the packages of the lock file unless they are there already. `packages`: `all`, or `runtime` to accept an install without the development ones. */
export function installMissing(packages) {
  if (!isInstalled(packages)) {
    // npm ci empties the folder: never through a link into somebody else's.
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
  // Where npm is set to ignore install scripts, the Node that we run on is still to be fetched.
  if (!existsSync(pinnedNode)) {
    const folder = join(modules, 'node');
    run(process.execPath, ['installArchSpecificPackage.js'], folder, 'installing Node 24');
  }
}

/** Runs a script of ours on the pinned Node in place of this process: same terminal, signals passed on, its exit code is ours. */
export function becomeNode(script, args) {
  const command = [join(root, script), ...args];
  // Keeps what was compiled from the sources: a start takes half the time. V8 takes it only under the flags that it was compiled under, and the
  // server sets one as it starts: in one folder, it and all others would compile everything anew after each other.
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

// A terminal's Ctrl-C arrives here twice, from the terminal and from npm.
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
