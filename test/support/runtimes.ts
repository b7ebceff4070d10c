// Deno and Bun, from the npm packages with their binaries. They take 200 MB, so the first test that needs them installs them, not `npm ci`.
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const versions = { deno: '2.9.6', bun: '1.4.4' };
const binaries = { deno: 'node_modules/@deno/*/deno{,.exe}', bun: 'node_modules/@oven/*/bin/bun{,.exe}' };
const cache = join(import.meta.dirname, '../../node_modules/.cache/parley');

export type Runtime = keyof typeof versions;

/** The path of its program, or the reason why there is none. */
export function findRuntime(name: Runtime): { program: string } | { missing: string } {
  const folder = join(cache, `${name}-${versions[name]}`);
  if (!existsSync(folder)) {
    const failure = install(name, folder);
    if (failure !== undefined) return { missing: failure };
  }
  const [program] = globSync(join(folder, binaries[name]));
  return program === undefined ? { missing: `${name} has no binary for ${process.platform} ${process.arch}` } : { program };
}

/** Into another folder first, so that a run that dies halfway leaves nothing that looks complete. Returns why it failed, if it did. */
function install(name: Runtime, folder: string): string | undefined {
  mkdirSync(cache, { recursive: true });
  const building = mkdtempSync(join(cache, 'building-'));
  console.error(`Installing ${name} ${versions[name]} for the client's test, once ...`);
  const options = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', '--prefix', building];
  const { status, stderr } = spawnSync('npm', ['install', ...options, `${name}@${versions[name]}`], { encoding: 'utf8', timeout: 120_000 });
  if (status !== 0) {
    rmSync(building, { recursive: true, force: true });
    return `${name} could not be installed: ${stderr.trim().split('\n').at(-1) ?? ''}`;
  }
  try {
    renameSync(building, folder);
  } catch {
    // Another process was faster.
    rmSync(building, { recursive: true, force: true });
  }
  return undefined;
}
